"""Users' objects as the core reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adapters.observation.observer import without_dropped_fields
from core import api, labels
from core.api.schemas.ec2_node_class import EC2NodeClassSpec
from core.api.schemas.fields import examined
from core.api.schemas.node_pool import Template
from core.api.translation import node_class_of, not_ignored, of_template, unknown_fields
from core.catalogue.free_addresses import written_reading
from core.catalogue.node_class import AddressReading
from core.catalogue.node_memory import written_group
from core.catalogue.reservations import written_upcoming
from core.errors import InvalidInputError
from core.model.node_pool import Budget, Disruption, NodeClass, NodePool
from core.model.plan import Condition, NodeClaim, ObjectRef
from core.model.snapshot import NodeOverlay
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from tests.unit.api.objects import ABSENT, NODE_CLAIM, NODE_CLASS, NODE_OVERLAY, NODE_POOL, changed

# Hashes change when nodes must be replaced, and only then.


TEMPLATE = "spec.template.spec"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.template.metadata.labels.team", "b"),
        ("spec.template.metadata.annotations", {"a": "b"}),
        ("spec.template.metadata.labels.lone", ""),
        (f"{TEMPLATE}.taints", []),
        (f"{TEMPLATE}.startupTaints.0.effect", "NoSchedule"),
        (f"{TEMPLATE}.nodeClassRef.name", "other"),
        (f"{TEMPLATE}.expireAfter", "1h"),
        (f"{TEMPLATE}.expireAfter", "Never"),
        (f"{TEMPLATE}.terminationGracePeriod", "1h"),
    ],
)
def test_a_changed_template_changes_the_hash(path: str, value: Any) -> None:
    """Otherwise, nodes of an outdated template stay forever."""
    assert api.node_pool(changed(NODE_POOL, path, value)).template_hash != api.node_pool(NODE_POOL).template_hash


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{TEMPLATE}.requirements", []),
        ("spec.weight", 9),
        ("spec.limits", ABSENT),
        ("spec.disruption", ABSENT),
        ("metadata.name", "other"),
        (f"{TEMPLATE}.expireAfter", "720h"),
        (f"{TEMPLATE}.expireAfter", "43200m"),
        (f"{TEMPLATE}.unknown", "x"),
    ],
)
def test_fields_that_do_not_concern_nodes_keep_the_hash(path: str, value: Any) -> None:
    """Otherwise, a raised limit replaces the whole pool."""
    assert api.node_pool(changed(NODE_POOL, path, value)).template_hash == api.node_pool(NODE_POOL).template_hash


def test_the_order_of_taints_does_not_matter() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    one, other = (api.node_pool(changed(NODE_POOL, f"{TEMPLATE}.taints", order)) for order in (taints, taints[::-1]))
    assert one.template_hash == other.template_hash


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.role", "other"),
        ("spec.userData", "#!/bin/sh"),
        ("spec.tags", {"a": "b"}),
        ("spec.kubelet", {"maxPods": 20}),
        ("spec.amiFamily", "Custom"),
        ("spec.blockDeviceMappings", [{"ebs": {"volumeSize": "10Gi"}}]),
        ("spec.metadataOptions", {"httpTokens": "optional"}),
        ("spec.detailedMonitoring", True),
        ("spec.placementGroupSelector", {"name": "x"}),
        ("spec.associatePublicIPAddress", True),
        ("spec.context", "x"),
        ("spec.associatePublicIPAddress", False),
        ("spec.tags", {"batch": ""}),
    ],
)
def test_a_changed_class_changes_the_hash(path: str, value: Any) -> None:
    assert api.node_class(changed(NODE_CLASS, path, value)).spec_hash != api.node_class(NODE_CLASS).spec_hash


@pytest.mark.parametrize("field", ["encrypted", "deleteOnTermination"])
def test_an_explicit_false_of_a_volume_differs_from_no_value(field: str) -> None:
    """The account's default may be true; old nodes would keep volumes that contradict the class."""
    left, forbidden = ([{"ebs": {"volumeSize": "10Gi", **more}}] for more in ({}, {field: False}))
    one, other = (api.node_class(changed(NODE_CLASS, "spec.blockDeviceMappings", way)) for way in (left, forbidden))
    assert one.spec_hash != other.spec_hash


@pytest.mark.parametrize(("size", "same"), [("1024Gi", "1Ti"), ("1000G", "1T")])
def test_another_notation_of_a_volume_size_replaces_no_node(size: str, same: str) -> None:
    """Tidying a manifest must not replace the whole cluster."""
    ways = ([{"ebs": {"volumeSize": written}}] for written in (size, same))
    one, other = (api.node_class(changed(NODE_CLASS, "spec.blockDeviceMappings", way)) for way in ways)
    assert one.spec_hash == other.spec_hash


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.subnetSelectorTerms", [{"id": "subnet-1"}]),
        ("spec.securityGroupSelectorTerms", [{"id": "sg-1"}]),
        ("spec.amiSelectorTerms", [{"alias": "al2023@v20240625"}]),
        ("spec.amiFamily", "AL2023"),
        ("spec.ipPrefixCount", 2),
        ("spec.detailedMonitoring", False),
        ("spec.metadataOptions", {"httpPutResponseHopLimit": 1}),
        ("spec.tags", {}),
        ("spec.cpuOptions", {}),
        ("spec.enclaveOptions", {"enabled": False}),
        ("spec.networkInterfaces", []),
    ],
)
def test_resolved_and_defaulted_fields_keep_the_hash(path: str, value: Any) -> None:
    assert api.node_class(changed(NODE_CLASS, path, value)).spec_hash == api.node_class(NODE_CLASS).spec_hash


def test_hashes_are_stable_between_releases() -> None:
    """They are stored on nodes: another hash for the same object replaces every node."""
    assert api.node_pool(NODE_POOL).template_hash == "74fd90cab2611f22"
    assert api.node_class(NODE_CLASS).spec_hash == "7ead897523f7be95"


def test_a_hash_is_short_and_names_no_order_of_keys() -> None:
    """It goes into a label, and an API server may give the fields back in another order."""
    written = NODE_POOL["spec"]["template"]
    backwards = dict(reversed(written.items()))
    found = of_template(Template.model_validate(written))
    assert found == of_template(Template.model_validate(backwards))
    assert len(found) <= 63


def test_text_of_any_script_has_the_hash_of_earlier_releases() -> None:
    """It is hashed as UTF-8; written otherwise, each class with an umlaut in a tag would replace its nodes."""
    spoken = changed(NODE_CLASS, "spec.tags", {"owner": "Zo\u00eb", "team": "\u00fc"})
    assert api.node_class(spoken).spec_hash == "292fe9f7338f79bb"
    noted = changed(NODE_POOL, "spec.template.metadata.annotations", {"a": "\u00fc"})
    assert api.node_pool(noted).template_hash == "5e9456e179678ad8"


def test_the_order_of_kubelet_settings_does_not_matter() -> None:
    settings = {"maxPods": 20, "clusterDNS": ["10.0.0.1"]}
    ways = (settings, dict(reversed(settings.items())))
    assert {api.node_class(changed(NODE_CLASS, "spec.kubelet", way)).spec_hash for way in ways} == {"b834d8129957d1ff"}


@pytest.mark.parametrize("device", [{"deviceName": "/dev/xvda"}, {"ebs": {"snapshotID": "snap-1"}}])
def test_a_device_without_a_size_has_a_hash(device: dict[str, Any]) -> None:
    """A volume of a snapshot has the snapshot's size, and a device may have no volume."""
    one = api.node_class(changed(NODE_CLASS, "spec.blockDeviceMappings", [device])).spec_hash
    assert len(one) == 16
    assert one != api.node_class(NODE_CLASS).spec_hash


# An EC2NodeClass in the model, with what its status resolves it to.


AT = datetime(2026, 11, 20, 1, 2, 3, tzinfo=UTC)
SUBNETS = [{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}, {"id": "subnet-2"}]


def translated(status: Any = None, **spec: Any) -> NodeClass:
    written = {**NODE_CLASS["spec"], **spec}
    read, _ = examined(EC2NodeClassSpec, written)
    assert read is not None
    return node_class_of(read, {**NODE_CLASS, "spec": written, **({} if status is None else {"status": status})})


def test_a_class_that_was_never_resolved_has_nothing() -> None:
    found = translated()
    assert (found.name, found.amis, found.subnets, found.security_groups) == ("default", (), (), ())
    assert (found.reservations, found.placement_group, found.addresses_per_node) == (None, "", 1)


def test_the_status_says_what_the_selectors_have_found() -> None:
    arm = {"key": labels.ARCH, "operator": "In", "values": ["arm64"]}
    amis = [{"id": "ami-1", "requirements": [arm]}]
    found = translated(
        {"subnets": SUBNETS, "securityGroups": [{"id": "sg-1"}], "amis": amis, "capacityReservations": []}
    )
    assert found.subnets == (("subnet-1", "us-east-1a"), ("subnet-2", ""))
    assert found.zone_ids == {"use1-az1": "us-east-1a"}
    assert (found.security_groups, found.reservations) == (("sg-1",), ())
    assert found.amis == (("ami-1", (Requirement.one_of(labels.ARCH, "arm64"),)),)


@pytest.mark.parametrize("status", ["broken", [], {"subnets": "x", "amis": {"id": 1}}, {"subnets": [7, {"zone": "a"}]}])
def test_a_status_that_something_else_wrote_is_taken_for_empty(status: Any) -> None:
    """Others may write it, and a class must not stop every plan."""
    found = translated(status)
    assert (found.subnets, found.amis) == ((), ())


def test_another_spec_has_another_hash() -> None:
    assert translated().spec_hash == translated({"subnets": SUBNETS}).spec_hash
    assert translated().spec_hash != translated(userData="#!/bin/sh").spec_hash


def annotated(**annotations: str) -> dict[str, Any]:
    metadata = {"name": "c", "uid": "u-1", "deletionTimestamp": "2026-11-20T01:02:03Z", "annotations": annotations}
    return {**NODE_CLASS, "metadata": metadata}


BLOCK = {"instanceType": "p5.48xlarge", "reservationType": "capacity-block", "endTime": "2026-11-21T00:00:00Z"}
BOOKED = {"state": "scheduled", "startTime": "2026-11-20T10:00:00Z", **BLOCK}


def test_a_class_is_translated_whole() -> None:
    """Each field of the model has a value of its own, so that one that is lost or mixed up is noticed."""
    texts = {
        labels.PLACEMENT_GROUP: written_group({"id": "pg-1", "name": "g", "strategy": "spread"}),
        labels.UPCOMING_RESERVATIONS: written_upcoming([{"id": "cr-3", **BOOKED}, {"id": "cr-4", "state": "delayed"}])
        or "",
        labels.SUBNET_ADDRESSES: written_reading(AddressReading(read_at=AT, per_node=3, free={"subnet-1": 1}), "")
        or "",
    }
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "subnets": [
            SUBNETS[0],
            {"id": "subnet-3", "zone": "us-east-1c"},
        ],
        "securityGroups": [{"id": "sg-1"}, {"id": "sg-2"}],
        "amis": [{"id": "ami-1"}],
        "capacityReservations": [{"id": "cr-1", **BLOCK}, {"id": "cr-2"}],
    }
    present = annotated(**texts)
    present = {**present, "spec": {**NODE_CLASS["spec"], "placementGroupSelector": {"name": "g"}}, "status": status}
    read, _ = examined(EC2NodeClassSpec, present["spec"])
    assert read is not None
    found = node_class_of(read, present)
    leaves = datetime(2026, 11, 20, 23, 20, tzinfo=UTC)
    assert found == NodeClass(
        name="c",
        uid="u-1",
        deleted_at=AT,
        is_ready=True,
        amis=(("ami-1", ()),),
        security_groups=("sg-1", "sg-2"),
        subnets=(("subnet-1", "us-east-1a"), ("subnet-3", "us-east-1c")),
        reservations=("cr-1", "cr-2", "cr-3", "cr-4"),
        reservation_begins={"cr-3": datetime(2026, 11, 20, 10, tzinfo=UTC)},
        reservation_ends={"cr-1": leaves, "cr-3": leaves},
        placement_group="pg-1",
        addresses_per_node=3,
        zone_ids={"use1-az1": "us-east-1a"},
        own_annotations=texts,
        spec_hash=found.spec_hash,
    )
    assert len(found.spec_hash) == 16


def test_a_status_that_cannot_be_read_resolves_nothing() -> None:
    """Its ids are shown, but no end, no group and no addresses."""
    found = translated({"capacityReservations": [{"id": "cr-1", **BLOCK, "places": "x"}]})
    assert found.reservations == ("cr-1",)
    assert (found.reservation_ends, found.reservation_begins, found.placement_group) == ({}, {}, "")
    assert found.addresses_per_node == 1


def test_only_a_subnet_with_both_names_of_its_zone_tells_one_from_the_other() -> None:
    """A volume names its zone by either."""
    subnets = [
        *SUBNETS,
        {"id": "subnet-3", "zone": "us-east-1c"},
        {"id": "subnet-4", "zoneID": "use1-az4"},
        {"zone": "us-east-1e", "zoneID": "use1-az5"},
    ]
    found = translated({"subnets": subnets})
    assert found.zone_ids == {"use1-az1": "us-east-1a"}
    assert found.subnets == (("subnet-1", "us-east-1a"), ("subnet-2", ""), ("subnet-3", "us-east-1c"), ("subnet-4", ""))


def test_a_pool_is_read_whole() -> None:
    obj = changed(NODE_POOL, "metadata.uid", "u")
    obj = changed(obj, "metadata.deletionTimestamp", "2026-11-20T00:00:00Z")
    obj = changed(obj, "metadata.annotations", {"karpenter.sh/nodepool-hash": "1"})
    obj = changed(obj, "spec.weight", 7)
    obj = changed(obj, "status", {"conditions": [{"type": "Ready", "status": "True"}]})
    pool = api.node_pool(obj)
    assert (pool.name, pool.uid, pool.weight, pool.is_ready) == ("default", "u", 7, True)
    assert pool.labels == {"team": "a"}
    assert pool.requirements == (Requirement.one_of("karpenter.sh/capacity-type", "on-demand"),)
    assert pool.taints == (Taint("a", "NoSchedule"),)
    assert pool.startup_taints == (Taint("s", "NoExecute"),)
    assert pool.node_class == ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "default")
    assert pool.limits == {"cpu": 100_000}
    assert pool.deleted_at == datetime(2026, 11, 20, tzinfo=UTC)
    assert pool.own_annotations == {"karpenter.sh/nodepool-hash": "1"}


def test_a_pool_that_says_little_gets_the_defaults_of_the_api() -> None:
    pool = api.node_pool(changed(changed(NODE_POOL, "spec.disruption", ABSENT), "spec.limits", ABSENT))
    assert pool.expire_after == timedelta(hours=720)
    assert pool.termination_grace_period is None
    assert pool.disruption.policy == "WhenEmptyOrUnderutilized"
    assert pool.disruption.consolidate_after == timedelta(0)
    assert pool.disruption.budgets == (Budget("10%"),)
    assert (pool.limits, pool.weight, pool.replicas, pool.is_ready) == ({}, 0, None, None)


def test_never_is_no_duration() -> None:
    obj = changed(changed(NODE_POOL, f"{TEMPLATE}.expireAfter", "Never"), "spec.disruption.consolidateAfter", "Never")
    pool = api.node_pool(obj)
    assert (pool.expire_after, pool.disruption.consolidate_after) == (None, None)


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_only_a_condition_with_status_true_makes_an_object_ready(status: str, ready: bool) -> None:
    obj = changed(NODE_POOL, "status", {"conditions": [{"type": "Ready", "status": status}]})
    assert api.node_pool(obj).is_ready is ready


def test_an_empty_list_of_budgets_is_not_the_default_one() -> None:
    """Karpenter: an empty list of budgets means no limit, and no list means ten percent."""
    assert api.node_pool(changed(NODE_POOL, "spec.disruption.budgets", [])).disruption.budgets == ()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"nodes": "many"}, Budget("many")),
        ({"nodes": "1", "schedule": "*"}, Budget("1", schedule="*")),
        ({"nodes": "1", "schedule": "@daily", "duration": "soon"}, Budget("1", schedule="@daily")),
        ({"nodes": "1", "duration": "1h"}, Budget("1", schedule="", duration=timedelta(hours=1))),
        ({"nodes": "1", "reasons": []}, Budget("1", reasons=())),
    ],
)
def test_a_bad_budget_closes_only_its_own_pool(written: dict[str, Any], read: Budget) -> None:
    """Such a pool still launches nodes; the budget's reader finds the fault and allows no disruption."""
    assert api.node_pool(changed(NODE_POOL, "spec.disruption.budgets", [written])).disruption.budgets == (read,)


def test_any_other_fault_names_object_and_field() -> None:
    with pytest.raises(InvalidInputError) as caught:
        api.node_pool(changed(NODE_POOL, "spec.weight", 0))
    assert (caught.value.subject, caught.value.field) == ("NodePool default", "spec.weight")


def test_older_versions_are_read_like_v1() -> None:
    old = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": "old"},
        "spec": {"template": {"spec": {"nodeClassRef": {"name": "c"}, "requirements": []}}},
    }
    assert api.node_pool(old).node_class.name == "c"


def test_a_class_is_read_with_its_resolved_status() -> None:
    found = {
        "amis": [
            {"id": "ami-1", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]},
            {"id": "ami-2"},
        ],
        "subnets": [{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}],
        "securityGroups": [{"id": "sg-1", "name": "nodes"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    node_class = api.node_class(changed(NODE_CLASS, "status", found))
    assert node_class.amis == (("ami-1", (Requirement.one_of("kubernetes.io/arch", "arm64"),)), ("ami-2", ()))
    assert node_class.subnets == (("subnet-1", "us-east-1a"),)
    assert node_class.security_groups == ("sg-1",)
    assert node_class.is_ready is True


def test_a_claim_is_read_with_its_status() -> None:
    moment = "2026-11-20T01:02:03Z"
    status = {
        "providerID": "aws:///us-east-1a/i-1",
        "nodeName": "node-1",
        "imageID": "ami-1",
        "capacity": {"cpu": "2"},
        "allocatable": {"cpu": "1930m"},
        "lastPodEventTime": moment,
        "conditions": [{"type": "Initialized", "status": "True", "reason": "R", "lastTransitionTime": moment}],
    }
    obj = changed(changed(NODE_CLAIM, "status", status), "metadata.labels", {"karpenter.sh/nodepool": "default"})
    claim = api.node_claim(changed(obj, "spec.resources", {"requests": {"cpu": "1"}}))
    assert (claim.provider_id, claim.node_name, claim.image_id) == ("aws:///us-east-1a/i-1", "node-1", "ami-1")
    assert (claim.capacity, claim.allocatable, claim.resources) == ({"cpu": 2000}, {"cpu": 1930}, {"cpu": 1000})
    assert claim.node_pool == "default"
    assert claim.is_true("Initialized")
    assert claim.conditions["Initialized"].changed_at == claim.last_pod_event_at
    assert claim.last_pod_event_at == datetime(2026, 11, 20, 1, 2, 3, tzinfo=UTC)


def test_a_claim_with_an_unreadable_amount_is_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match=r"NodeClaim default-0: status\.capacity\.cpu"):
        api.node_claim(changed(NODE_CLAIM, "status", {"capacity": {"cpu": "lots"}}))


def test_an_overlay_s_price_is_exact() -> None:
    overlay = api.node_overlay(changed(changed(NODE_OVERLAY, "spec.price", "0.0425"), "spec.weight", 10))
    assert (overlay.name, overlay.price, overlay.weight) == ("cheaper", 42_500_000, 10)
    adjusted = api.node_overlay(changed(NODE_OVERLAY, "spec.priceAdjustment", "-10%"))
    assert (adjusted.price, adjusted.price_adjustment) == (None, "-10%")


@pytest.mark.parametrize(("read", "obj"), [(api.node_pool, NODE_POOL), (api.node_class, NODE_CLASS)])
def test_unchanged_objects_are_read_once_and_changed_ones_again(read: Any, obj: dict[str, Any]) -> None:
    own = changed(obj, "metadata.uid", "kept")
    first = read(own)
    assert read(changed(obj, "metadata.uid", "kept")) is first
    annotations = {"fleetwright.dev/a": "1"}
    assert read(changed(own, "metadata.annotations", annotations)).own_annotations == annotations
    own["metadata"]["uid"] = "other"
    assert (first.uid, read(own).uid) == ("kept", "other")


def test_equal_values_of_different_types_are_distinguished() -> None:
    assert api.node_pool(changed(NODE_POOL, "spec.weight", 1)).weight == 1
    with pytest.raises(InvalidInputError):
        api.node_pool(changed(NODE_POOL, "spec.weight", True))
    annotations = {"fleetwright.dev/day": "2026-11-22"}
    assert api.node_pool(changed(NODE_POOL, "metadata.annotations", annotations)).own_annotations == annotations
    # YAML files have dates, which are not text.
    with_date = changed(
        NODE_POOL, f"{TEMPLATE.removesuffix('.spec')}.metadata.labels", {"day": datetime(2026, 11, 22, tzinfo=UTC)}
    )
    with pytest.raises(InvalidInputError):
        api.node_pool(with_date)


def test_a_pool_that_says_all_is_translated_whole() -> None:
    """Each field of the model has a value of its own, so that one that is lost or mixed up is noticed."""
    annotations = {
        labels.PRICE_FACTORS: "m5a=1.2",
        labels.EXPIRY: "Forceful",
        labels.EVICTIONS_PER_HOUR: "50",
        labels.LARGEST_NODE: "cpu=64",
        labels.SHARED_LIMITS: "a:cpu=7",
    }
    metadata = {
        "name": "p",
        "uid": "u",
        "creationTimestamp": "2026-11-19T00:00:00Z",
        "deletionTimestamp": "2026-11-20T00:00:00Z",
        "annotations": annotations,
    }
    template = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"},
        "requirements": [
            {"key": "team", "operator": "In", "values": ["a", "b"], "minValues": 2},
            {"key": "other", "operator": "Exists"},
        ],
        "taints": [{"key": "a", "effect": "NoSchedule", "value": "v"}],
        "startupTaints": [{"key": "s", "effect": "NoExecute"}],
        "expireAfter": "1h",
        "terminationGracePeriod": "2h",
    }
    budget = {"nodes": "3", "reasons": ["Empty", "Drifted"], "schedule": "@daily", "duration": "3h"}
    spec = {
        "template": {"metadata": {"labels": {"l": "1"}, "annotations": {"n": "2"}}, "spec": template},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "4m", "budgets": [budget]},
        "limits": {"cpu": "5"},
        "weight": 6,
    }
    status = {"conditions": [{"type": "Ready", "status": "False"}]}
    pool = api.node_pool({**NODE_POOL, "metadata": metadata, "spec": spec, "status": status})
    assert pool == NodePool(
        name="p",
        uid="u",
        labels={"l": "1"},
        annotations={"n": "2"},
        taints=(Taint("a", "NoSchedule", "v"),),
        startup_taints=(Taint("s", "NoExecute"),),
        requirements=(Requirement.of("team", "In", ["a", "b"], 2), Requirement("other")),
        node_class=ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "c"),
        expire_after=timedelta(hours=1),
        termination_grace_period=timedelta(hours=2),
        limits={"cpu": 5000},
        weight=6,
        disruption=Disruption(
            policy="WhenEmpty",
            consolidate_after=timedelta(minutes=4),
            budgets=(Budget("3", ("Empty", "Drifted"), "@daily", timedelta(hours=3)),),
        ),
        created_at=datetime(2026, 11, 19, tzinfo=UTC),
        deleted_at=datetime(2026, 11, 20, tzinfo=UTC),
        is_ready=False,
        own_annotations=annotations,
        price_factors={"m5a": 1200},
        largest_node={"cpu": 64_000},
        shared_limits={"a": {"cpu": 7_000}},
        evictions_per_hour=50,
        expires_forcefully=True,
        template_hash=pool.template_hash,
    )
    assert len(pool.template_hash) == 16
    static = {key: value for key, value in spec.items() if key not in ("weight", "limits")} | {"replicas": 7}
    assert (api.node_pool({**NODE_POOL, "spec": static}).replicas, pool.replicas) == (7, None)


def test_a_claim_that_says_all_is_translated_whole() -> None:
    metadata = {
        "name": "p-1",
        "uid": "u",
        "creationTimestamp": "2026-11-19T00:00:00Z",
        "deletionTimestamp": "2026-11-20T00:00:00Z",
        "annotations": {"karpenter.sh/n": "2"},
        "labels": {"l": "1"},
    }
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"},
        "requirements": [{"key": "team", "operator": "In", "values": ["a", "b"], "minValues": 2}],
        "taints": [{"key": "a", "effect": "NoSchedule", "value": "v"}],
        "startupTaints": [{"key": "s", "effect": "NoExecute"}],
        "resources": {"requests": {"cpu": "1"}},
        "expireAfter": "1h",
        "terminationGracePeriod": "2h",
    }
    status = {
        "providerID": "aws:///z/i-1",
        "nodeName": "node",
        "imageID": "ami",
        "capacity": {"cpu": "2"},
        "allocatable": {"cpu": "3"},
        "lastPodEventTime": "2026-11-20T01:00:00Z",
        "conditions": [{"type": "Launched", "status": "True"}],
    }
    assert api.node_claim({**NODE_CLAIM, "metadata": metadata, "spec": spec, "status": status}) == NodeClaim(
        name="p-1",
        uid="u",
        labels={"l": "1"},
        annotations={"karpenter.sh/n": "2"},
        taints=(Taint("a", "NoSchedule", "v"),),
        startup_taints=(Taint("s", "NoExecute"),),
        requirements=(Requirement.of("team", "In", ["a", "b"], 2),),
        resources={"cpu": 1000},
        node_class=ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "c"),
        expire_after=timedelta(hours=1),
        termination_grace_period=timedelta(hours=2),
        created_at=datetime(2026, 11, 19, tzinfo=UTC),
        deleted_at=datetime(2026, 11, 20, tzinfo=UTC),
        provider_id="aws:///z/i-1",
        node_name="node",
        image_id="ami",
        capacity={"cpu": 2000},
        allocatable={"cpu": 3000},
        conditions={"Launched": Condition("True")},
        last_pod_event_at=datetime(2026, 11, 20, 1, tzinfo=UTC),
    )


def test_an_overlay_is_translated_whole() -> None:
    spec = {
        "requirements": [{"key": "team", "operator": "In", "values": ["a"]}],
        "price": "0.5",
        "capacity": {"example.com/fpga": "2"},
        "weight": 3,
    }
    requirements = (Requirement.one_of("team", "a"),)
    full = NodeOverlay(
        name="cheaper",
        requirements=requirements,
        price=500_000_000,
        capacity={"example.com/fpga": 2000 // 1000},
        weight=3,
    )
    assert api.node_overlay({**NODE_OVERLAY, "spec": spec}) == full
    least = {"requirements": spec["requirements"]}
    assert api.node_overlay({**NODE_OVERLAY, "spec": least}) == NodeOverlay(name="cheaper", requirements=requirements)


@pytest.mark.parametrize("entry", [7, "x", None, ["nodes"]])
def test_what_is_no_budget_is_left_out(entry: object) -> None:
    pool = api.node_pool(changed(NODE_POOL, "spec.disruption.budgets", [entry, {}]))
    assert pool.disruption.budgets == (Budget("10%"),)


def test_a_bad_budget_closes_its_pool_where_the_policy_says_nothing_else() -> None:
    """A manifest may state budgets alone: the whole NodePool was refused, and nothing was planned for it."""
    pool = api.node_pool(changed(NODE_POOL, "spec.disruption", {"budgets": [{"nodes": "110%"}]}))
    assert (pool.disruption.budgets, pool.disruption.policy) == ((Budget("110%"),), "WhenEmptyOrUnderutilized")
    for wrong in (5, []):
        with pytest.raises(InvalidInputError, match=r"spec\.disruption"):
            api.node_pool(changed(NODE_POOL, "spec.disruption", wrong))


def test_an_object_with_a_fault_is_refused_by_kind_name_and_field() -> None:
    """Also where its fields can be read, and only a rule is broken."""
    for path, value, field in (
        ("spec.weight", "x", "spec.weight"),
        (
            "spec.template.metadata.labels",
            {"kubernetes.io/hostname": "x"},
            "spec.template.metadata.labels[kubernetes.io/hostname]",
        ),
    ):
        with pytest.raises(InvalidInputError) as refused:
            api.node_pool(changed(NODE_POOL, path, value))
        assert (refused.value.subject, refused.value.field) == ("NodePool default", field)


def test_equal_objects_are_read_once_and_different_ones_each() -> None:
    """Observations read hundreds of unchanged NodePools; what JSON cannot hold is read as well."""
    one = api.node_pool(changed(NODE_POOL, "metadata.name", "once"))
    assert api.node_pool(changed(NODE_POOL, "metadata.name", "once")) is one
    assert api.node_pool(changed(NODE_POOL, "metadata.name", "twice")) is not one
    assert api.node_pool({**NODE_POOL, "extra": object()}).name == "default"


# Fields that this version does not know are found wherever they are, and nowhere else.


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        (NODE_POOL, "spec.rebootPolicy"),
        (NODE_POOL, "spec.template.spec.rebootPolicy"),
        (NODE_POOL, "spec.disruption.canary"),
        (NODE_CLASS, "spec.hibernation"),
        (NODE_CLASS, "spec.metadataOptions.httpTags"),
    ],
)
def test_an_unknown_field_is_named_by_its_path(obj: dict[str, Any], path: str) -> None:
    assert unknown_fields(obj) == ()
    assert unknown_fields(changed(obj, path, {"anything": 1})) == (path,)


def test_fields_inside_lists_are_found() -> None:
    terms = [{"id": "subnet-1"}, {"id": "subnet-2", "vpc": "vpc-1"}]
    assert unknown_fields(changed(NODE_CLASS, "spec.subnetSelectorTerms", terms)) == (
        "spec.subnetSelectorTerms[1].vpc",
    )


def test_other_kinds_and_older_versions_have_none() -> None:
    assert unknown_fields({"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}}) == ()
    assert unknown_fields({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "spec": {"x": 1}}) == ()


def test_an_annotation_names_the_fields_without_which_nodes_may_be_launched() -> None:
    two = changed(changed(NODE_CLASS, "spec.hibernation", True), "spec.other", 1)
    told = changed(two, "metadata.annotations", {labels.IGNORED_FIELDS: "spec.hibernation, spec.none"})
    assert (not_ignored(two), not_ignored(told)) == (("spec.hibernation", "spec.other"), ("spec.other",))


def test_the_functions_launch_nothing_from_a_class_with_a_field_that_they_drop() -> None:
    """A node without its enclave or its kubelet setting is a wrong node."""
    node_class = without_dropped_fields(api.node_class(changed(NODE_CLASS, "spec.hibernation", True)))
    assert labels.IGNORED_FIELDS in node_class.problem
    assert node_class.problem.startswith("spec.hibernation: ")
    assert without_dropped_fields(api.node_class(NODE_CLASS)).problem == ""


def test_the_functions_launch_nothing_with_a_template_whose_field_they_drop() -> None:
    """A field of `disruption` is no part of a node."""
    template, disruption = ("spec.template.spec.rebootPolicy", "spec.disruption.canary")
    pool = api.node_pool(changed(changed(NODE_POOL, template, "x"), disruption, True))
    assert (pool.unknown_fields, without_dropped_fields(pool).problem != "") == ((template,), True)
    told = changed(changed(NODE_POOL, template, "x"), "metadata.annotations", {labels.IGNORED_FIELDS: template})
    assert without_dropped_fields(api.node_pool(told)).problem == ""
