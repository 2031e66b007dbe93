"""Reading volumes, claims and storage classes: pods are planned where their volumes are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from core import labels
from core.errors import InvalidInputError
from core.manifests import storage
from core.manifests.storage import equality_selector, label_selector, node_term, node_terms, selector_fault
from core.manifests.wire import resources
from core.manifests.wire.objects import NodeSelector, SelectorExpression, WireLabelSelector, WireNodeSelectorTerm
from core.model.pod import EBS_DRIVER, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, StorageClass
from core.model.values.requirements import Requirement
from tests.unit.manifests.objects_for_tests import IN_ZONE_A, a_claim, a_volume, written

# Label selectors and node selectors.


def test_a_missing_selector_differs_from_an_empty_one() -> None:
    """A missing selector selects nothing, an empty one everything."""
    assert label_selector(None, field="f") is None
    everything = label_selector(WireLabelSelector(), field="f")
    assert everything is not None
    assert everything.matches({})


def test_labels_and_expressions_are_combined() -> None:
    expression = SelectorExpression(key="tier", operator="NotIn", values=("db",))
    found = label_selector(WireLabelSelector(match_labels={"app": "web"}, match_expressions=(expression,)), field="f")
    assert found is not None
    assert found.matches({"app": "web"})
    assert not found.matches({"app": "web", "tier": "db"})
    assert equality_selector({"app": "web"}).matches({"app": "web", "tier": "db"})


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        (SelectorExpression(key="a", operator="Gt", values=("1",)), "f.matchExpressions[0].operator"),
        (SelectorExpression(key="a", operator="In"), "f.matchExpressions[0].values"),
    ],
)
def test_a_fault_names_its_place(expression: SelectorExpression, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        label_selector(WireLabelSelector(match_expressions=(expression,)), field="f")
    assert caught.value.field == field


def test_a_bound_that_is_not_a_number_matches_no_node() -> None:
    """The API server accepts it."""
    term = WireNodeSelectorTerm(match_expressions=(SelectorExpression(key="cpu", operator="Gt", values=("many",)),))
    assert node_term(term, field="f").requirements == ()


def test_a_node_selector_needs_a_term() -> None:
    with pytest.raises(InvalidInputError, match="at least one term"):
        node_terms(NodeSelector(), field="f")


def test_a_value_that_no_label_can_have_is_named() -> None:
    assert selector_fault({"app": "a b"}, field="spec.nodeSelector").startswith("spec.nodeSelector['app']: ")
    assert selector_fault({"app": "web"}, field="spec.nodeSelector") == ""


@pytest.mark.parametrize("values", [(), ("1", "2"), ("many", "2")])
def test_a_bound_with_no_or_several_values_is_a_fault(values: tuple[str, ...]) -> None:
    """The API server refuses it; only a single value that is no number is accepted, and met by no node."""
    term = WireNodeSelectorTerm(match_expressions=(SelectorExpression(key="cpu", operator="Gt", values=values),))
    with pytest.raises(InvalidInputError):
        node_term(term, field="f")


@pytest.mark.parametrize(
    "key", [labels.ZONE, "failure-domain.beta.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"]
)
def test_a_volume_ties_its_pods_to_its_zone_under_any_of_the_keys(key: str) -> None:
    """A pod placed elsewhere could never mount it."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]}
    volume = a_volume(nodeAffinity={"required": {"nodeSelectorTerms": [term]}}, csi={"driver": "ebs.csi.aws.com"})
    assert volume.node_terms == (IN_ZONE_A,)
    assert volume.driver == "ebs.csi.aws.com"


def test_an_older_volume_is_tied_by_its_labels() -> None:
    """In-tree provisioners wrote the zones there, several separated by two underscores."""
    meta = {"labels": {"failure-domain.beta.kubernetes.io/zone": "a__b"}}
    volume = a_volume(meta=meta, awsElasticBlockStore={"volumeID": "v"})
    assert volume.node_terms == (NodeSelectorTerm((Requirement.one_of(labels.ZONE, "a", "b"),)),)
    assert volume.driver == EBS_DRIVER


def test_local_volumes_are_marked() -> None:
    """Their host name must not keep a pod from a new node forever."""
    assert a_volume(local={"path": "/"}).is_local
    assert a_volume(hostPath={"path": "/"}).is_local
    assert not a_volume(csi={"driver": "d"}).is_local


def test_a_volume_that_goes_is_known_as_such() -> None:
    """A pod that waits for it would wait for a node in its zone in vain."""
    assert a_volume(meta={"deletionTimestamp": "2026-11-20T00:00:00Z"}, csi={"driver": "d"}).is_terminating
    assert not a_volume(csi={"driver": "d"}).is_terminating


def test_a_claims_state_is_read() -> None:
    """A claim that is bound only in name, or terminating, places no pod."""
    meta = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}, "deletionTimestamp": "2026-11-20T00:00:00Z"}
    claim = a_claim(meta=meta, volumeName="pv-1", storageClassName="")
    assert (claim.volume_name, claim.storage_class) == ("pv-1", "")
    assert claim.is_bind_completed
    assert claim.is_terminating
    assert a_claim(meta={"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}).storage_class == "old"


def test_storage_classes_translate_the_in_tree_driver_and_their_topologies() -> None:
    """One driver has one attach limit under each of its names; volumes are created in allowed zones only."""
    expressions = [{"key": "topology.ebs.csi.aws.com/zone", "values": ["a"]}]
    found = storage.storage_class(
        written(
            resources.STORAGE_CLASSES,
            meta={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            provisioner="kubernetes.io/aws-ebs",
            allowedTopologies=[{"matchLabelExpressions": expressions}],
        )
    )
    assert found.provisioner == EBS_DRIVER
    assert found.allowed_topologies == (IN_ZONE_A,)
    assert found.binding_mode == "Immediate"
    assert found.is_default


def test_claims_without_a_class_get_the_default() -> None:
    """As from the API server; an empty class is a choice, and a bound claim needs none."""
    claims = (a_claim(), a_claim(storageClassName=""), a_claim(volumeName="pv"))
    classes = (StorageClass(name="b", is_default=True), StorageClass(name="a"))
    found = storage.with_default_class(claims, classes)
    assert [claim.storage_class for claim in found] == ["b", "", None]
    newer = StorageClass(name="c", is_default=True, created_at=datetime(2026, 1, 2, tzinfo=UTC))
    (found_of_two,) = storage.with_default_class((a_claim(),), (*classes, newer))
    assert found_of_two.storage_class == "c", "of several defaults the newest"


def test_attachments_name_volume_and_node() -> None:
    """A volume attached to another node delays that node's termination."""
    spec = {"nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    found = storage.attachment(written(resources.VOLUME_ATTACHMENTS, spec=spec))
    assert (found.name, found.node_name, found.volume_name) == ("x", "n", "pv")


def test_every_field_of_a_volume_a_claim_and_a_class_is_read() -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": labels.ZONE, "operator": "In", "values": ["a"]}]}]}
    assert a_volume(nodeAffinity={"required": terms}, csi={"driver": "d"}) == PersistentVolume(
        name="x", node_terms=(IN_ZONE_A,), driver="d", is_local=False, is_terminating=False
    )
    meta = {"namespace": "shop", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = storage.volume_claim(
        written(
            resources.PERSISTENT_VOLUME_CLAIMS,
            meta=meta,
            spec={"volumeName": "pv", "storageClassName": "gp3"},
            status={"phase": "Bound"},
        )
    )
    assert claim == PersistentVolumeClaim(
        namespace="shop",
        name="x",
        volume_name="pv",
        storage_class="gp3",
        phase="Bound",
        is_terminating=False,
        is_bind_completed=True,
    )
    bare = storage.volume_claim(written(resources.PERSISTENT_VOLUME_CLAIMS))
    assert bare == PersistentVolumeClaim(
        namespace="default",
        name="x",
        volume_name="",
        storage_class=None,
        phase="Pending",
        is_terminating=False,
        is_bind_completed=False,
    )


def test_a_volume_without_a_driver_has_none_and_a_class_binds_at_once_unless_it_waits() -> None:
    assert a_volume(nfs={"server": "s", "path": "/"}).driver == ""
    for written_mode, mode in (
        ("WaitForFirstConsumer", "WaitForFirstConsumer"),
        ("", "Immediate"),
        (None, "Immediate"),
    ):
        fields = {"provisioner": "d"} | ({} if written_mode is None else {"volumeBindingMode": written_mode})
        assert storage.storage_class(written(resources.STORAGE_CLASSES, **fields)).binding_mode == mode


# How many volumes of each CSI driver a node may attach.


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def limits_of(
    drivers: list[dict[str, object]] | None, *, requires: bool, age: timedelta = timedelta(hours=1)
) -> object:
    node = written(resources.NODES, meta={"creationTimestamp": (NOW - age).isoformat()})
    found = [] if drivers is None else [written(resources.CSI_NODES, spec={"drivers": drivers})]
    spec = {"preventPodSchedulingIfMissing": requires}
    installed = written(resources.CSI_DRIVERS, meta={"name": "ebs.csi.aws.com"}, spec=spec)
    return storage.VolumeLimits(found, [installed], NOW).of(node)


def test_attach_limits_are_those_of_the_drivers() -> None:
    """A driver without a count has no limit; zero is a limit."""
    drivers = [{"name": "b", "allocatable": {"count": 0}}, {"name": "a", "allocatable": {"count": 25}}, {"name": "c"}]
    assert limits_of(drivers, requires=False) == {"a": 25, "b": 0}


@pytest.mark.parametrize("drivers", [None, [], [{"name": "other"}]])
def test_a_node_without_a_driver_that_must_be_there_attaches_none_of_its_volumes(
    drivers: list[dict[str, object]],
) -> None:
    """The scheduler refuses it pods with such volumes (nodevolumelimits, checkCSIDriverOnNode), for ever."""
    assert limits_of(drivers, requires=True) == {"ebs.csi.aws.com": 0}
    assert limits_of(drivers, requires=False) == {}
    assert limits_of([{"name": "ebs.csi.aws.com"}], requires=True) == {}


def test_a_new_node_gets_its_drivers_soon() -> None:
    """Otherwise, a second node is launched for a pod whose own has just joined."""
    assert limits_of(None, requires=True, age=storage.DRIVER_COMES_WITHIN - timedelta(seconds=1)) == {}
    assert limits_of(None, requires=True, age=storage.DRIVER_COMES_WITHIN) == {"ebs.csi.aws.com": 0}
