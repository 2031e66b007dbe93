"""Nodes, volumes, budgets and the small kinds: wire → model."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from core import labels
from core.errors import InvalidInputError
from core.manifests import nodes, policies, storage
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import decoding as wire
from core.manifests.wire.api_resources import Resource
from core.model.node import Node
from core.model.pod import NodeSelectorTerm
from core.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint

IN_ZONE_A = NodeSelectorTerm((Requirement.one_of(labels.ZONE, "a"),))


def written(resource: Resource, *, meta: dict[str, Any] | None = None, **fields: Any) -> Any:
    return wire.from_object(resource, {"metadata": {"name": "x", **(meta or {})}, **fields})


def a_node(*, status: dict[str, Any] | None = None, **spec: Any) -> Node:
    return nodes.node(written(kinds.NODES, spec=spec, status=status or {}))


def a_volume(*, meta: dict[str, Any] | None = None, **spec: Any) -> PersistentVolume:
    return storage.volume(written(kinds.PERSISTENT_VOLUMES, meta=meta, spec=spec))


def a_claim(*, meta: dict[str, Any] | None = None, **spec: Any) -> PersistentVolumeClaim:
    return storage.volume_claim(written(kinds.PERSISTENT_VOLUME_CLAIMS, meta=meta, spec=spec))


def test_a_node_says_what_it_has_and_whether_it_is_ready() -> None:
    """Pods are placed by allocatable; readiness decides about liveness and repair."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T00:00:00Z"}
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}, "conditions": [ready]}
    node = a_node(status=status, providerID="aws:///a/i-1")
    assert (node.capacity, node.allocatable, node.provider_id) == ({"cpu": 4000}, {"cpu": 3900}, "aws:///a/i-1")
    assert node.is_ready
    assert node.ready_changed_at is not None
    assert not a_node().is_ready


def test_a_node_without_allocatable_offers_its_capacity() -> None:
    """The API server fills it in so."""
    assert a_node(status={"capacity": {"cpu": "4"}}).allocatable == {"cpu": 4000}


def test_a_cordoned_node_repels_pods_once() -> None:
    """Kubernetes taints it; a manifest may show the field, the taint or both."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": NO_SCHEDULE}
    expected = (Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE),)
    assert a_node(unschedulable=True).taints == expected
    assert a_node(unschedulable=True, taints=[taint]).taints == expected


def test_an_unknown_effect_names_its_field() -> None:
    """Ignored, it would let pods onto a node that wants none."""
    with pytest.raises(InvalidInputError) as caught:
        a_node(taints=[{"key": "a", "effect": "Never"}])
    assert caught.value.field == "spec.taints[0].effect"


def test_attach_limits_are_those_that_drivers_state() -> None:
    """A driver without a count has no limit; a limit of zero is one."""
    drivers = [{"name": "b", "allocatable": {"count": 0}}, {"name": "a", "allocatable": {"count": 25}}, {"name": "c"}]
    assert nodes.attach_limits(written(kinds.CSI_NODES, spec={"drivers": drivers})) == {"a": 25, "b": 0}


@pytest.mark.parametrize(
    "key", [labels.ZONE, "failure-domain.beta.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"]
)
def test_a_volume_holds_its_pods_to_its_zone_under_any_of_the_keys(key: str) -> None:
    """A pod placed elsewhere could never mount it."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]}
    volume = a_volume(nodeAffinity={"required": {"nodeSelectorTerms": [term]}}, csi={"driver": "ebs.csi.aws.com"})
    assert volume.node_terms == (IN_ZONE_A,)
    assert volume.driver == "ebs.csi.aws.com"


def test_an_older_volume_is_held_by_its_labels() -> None:
    """In-tree provisioners wrote the zones there, several with two underscores between."""
    meta = {"labels": {"failure-domain.beta.kubernetes.io/zone": "a__b"}}
    volume = a_volume(meta=meta, awsElasticBlockStore={"volumeID": "v"})
    assert volume.node_terms == (NodeSelectorTerm((Requirement.one_of(labels.ZONE, "a", "b"),)),)
    assert volume.driver == storage.EBS_DRIVER


def test_local_volumes_are_marked() -> None:
    """Their host name must not keep a pod from a new node for ever."""
    assert a_volume(local={"path": "/"}).is_local
    assert a_volume(hostPath={"path": "/"}).is_local
    assert not a_volume(csi={"driver": "d"}).is_local


def test_a_claim_tells_its_state() -> None:
    """A claim that is bound on paper only, or going away, places no pod."""
    meta = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}, "deletionTimestamp": "2026-11-20T00:00:00Z"}
    claim = a_claim(meta=meta, volumeName="pv-1", storageClassName="")
    assert (claim.volume_name, claim.storage_class) == ("pv-1", "")
    assert claim.is_bind_completed
    assert claim.is_terminating
    assert a_claim(meta={"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}).storage_class == "old"


def test_storage_classes_translate_the_in_tree_driver_and_their_topologies() -> None:
    """One driver has one attach limit, whatever it is called; volumes appear only in allowed zones."""
    expressions = [{"key": "topology.ebs.csi.aws.com/zone", "values": ["a"]}]
    found = storage.storage_class(
        written(
            kinds.STORAGE_CLASSES,
            meta={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            provisioner="kubernetes.io/aws-ebs",
            allowedTopologies=[{"matchLabelExpressions": expressions}],
        )
    )
    assert found.provisioner == storage.EBS_DRIVER
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
    """A volume still held elsewhere keeps its node from being done."""
    spec = {"nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    found = storage.attachment(written(kinds.VOLUME_ATTACHMENTS, spec=spec))
    assert (found.name, found.node_name, found.volume_name) == ("x", "n", "pv")


def test_a_pod_disruption_budget_without_selector_selects_nothing() -> None:
    """And with an empty one everything (policy/v1)."""
    found = [
        policies.pod_disruption_budget(written(kinds.POD_DISRUPTION_BUDGETS, spec=spec)).selector
        for spec in ({}, {"selector": {}})
    ]
    assert found[0] is None
    assert found[1] is not None
    assert found[1].matches({})


def test_a_pod_disruption_budgets_numbers_stay_as_written() -> None:
    """50% is not 50."""
    spec = {"minAvailable": "50%", "maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    found = policies.pod_disruption_budget(
        written(kinds.POD_DISRUPTION_BUDGETS, spec=spec, status={"disruptionsAllowed": 0})
    )
    assert (found.min_available, found.max_unavailable, found.disruptions_allowed) == ("50%", "1", 0)
    assert found.unhealthy_pod_eviction_policy == "AlwaysAllow"
    assert policies.pod_disruption_budget(written(kinds.POD_DISRUPTION_BUDGETS)).disruptions_allowed is None


def test_a_daemon_set_is_the_pod_that_its_template_makes() -> None:
    """Its labels and requests are overhead on every node; a fault is named inside the template."""
    container = {"name": "c", "resources": {"limits": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
    found = policies.daemon_set(written(kinds.DAEMON_SETS, spec={"template": template}), PodTranslator())
    assert (found.labels, found.spec.requests) == ({"app": "agent"}, {"cpu": 100, "pods": 1})
    container["resources"] = {"requests": {"cpu": "-1"}}
    with pytest.raises(InvalidInputError) as caught:
        policies.daemon_set(written(kinds.DAEMON_SETS, spec={"template": template}), PodTranslator())
    assert caught.value.field == "spec.template.spec.containers[0].resources.requests.cpu"


def test_selectors_of_services_and_workloads() -> None:
    """Default spread constraints go by them."""
    service = policies.service(written(kinds.SERVICES, spec={"selector": {"app": "a"}}))
    assert service.selector == {"app": "a"}
    workload = policies.workload_selector(
        written(kinds.STATEFUL_SETS, spec={"selector": {"matchLabels": {"app": "a"}}}), "StatefulSet"
    )
    assert workload.selector is not None
    assert workload.selector.matches({"app": "a", "b": "c"})
    controller = policies.controller_selector(written(kinds.REPLICATION_CONTROLLERS, spec={"selector": {"app": "a"}}))
    assert controller.selector == workload.selector


def test_a_namespace_carries_its_own_name_as_a_label() -> None:
    """Kubernetes sets it; namespace selectors use it."""
    found = policies.namespace(written(kinds.NAMESPACES, meta={"labels": {"team": "a"}}))
    assert found.labels == {"kubernetes.io/metadata.name": "x", "team": "a"}
