"""From decoded objects to a snapshot."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from core import api, codec, labels
from core.calendars import with_calendars
from core.disruption.drift import DriftCheck
from core.errors import InvalidInputError
from core.manifests import assemble as assemble_module
from core.manifests.assemble import (
    AUTO_MODE_GROUP,
    ObjectProblem,
    assemble,
    owner_of,
    requirements_with_zones,
    with_zones,
    zones_by_id,
)
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue
from core.model.node_pool import NodeClass
from core.model.plan import ObjectRef
from core.model.pod import (
    NodeSelectorTerm,
    PersistentVolume,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    StorageClass,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import Node, NodeCondition, Options, Service, Snapshot
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint
from core.scheduling import schedule
from tests.builders import NOW, ZONES, a_class_manifest, a_node_of, a_pod, a_snapshot, a_type
from tests.builders import a_pool as zone_ids_a_pool
from tests.unit.manifests.objects_for_tests import a_node, written
from tests.unit.scheduling.reading import claim_of, places


def a_pool(**changes: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": [], **changes}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": template},
    }


def a_manifest(name: str, *, meta: dict[str, Any] | None = None, status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **(meta or {})}, "spec": spec, "status": status or {}}


def assembled(
    objects: dict[Resource, list[dict[str, Any]]], *, is_live: bool = False
) -> tuple[Snapshot, tuple[ObjectProblem, ...]]:
    decoded = {resource: [decoding.from_object(resource, obj) for obj in found] for resource, found in objects.items()}
    return assemble(decoded, now=NOW, catalogue=Catalogue(), is_live=is_live)


def test_a_bad_object_is_named_and_the_rest_is_read() -> None:
    """One unreadable pod must not stop all others."""
    bad = a_manifest("bad", tolerations=[{"operator": "Like"}])
    snapshot, problems = assembled({resources.PODS: [a_manifest("a"), bad, a_manifest("c")]})
    assert [(pod.name, bool(pod.unreadable)) for pod in snapshot.pods] == [("a", False), ("bad", True), ("c", False)]
    (problem,) = problems
    assert (problem.resource, problem.position, problem.is_warning) == (resources.PODS, 1, False)
    known = "use one of Equal, Exists, Lt, Gt"
    assert str(problem) == f"Pod default/bad: spec.tolerations[0].operator: unknown operator 'Like', {known}"


@pytest.mark.parametrize("requests", [[{"cpu": "1e17"}], [{"memory": "7Ei"}] * 3, [{"nvidia.com/gpu": "1e99"}]])
def test_a_pod_that_asks_for_more_than_can_be_counted_stops_nothing(requests: list[dict[str, str]]) -> None:
    """The API server takes `cpu: 1e17`. One such pod made every decision fail, of all pods of the cluster."""
    containers = [{"name": f"c{n}", "resources": {"requests": asked}} for n, asked in enumerate(requests)]
    pods = [a_manifest("huge", containers=containers), a_manifest("small", containers=[{"name": "c"}])]
    snapshot, problems = assembled({resources.PODS: pods})
    assert not problems
    assert codec.decode_snapshot(codec.encode_snapshot(snapshot)).pods == snapshot.pods
    assert max(snapshot.pods[0].spec.requests.values()) == quantity.AMOUNT_MAX


def test_a_bad_node_pool_stays_and_is_marked() -> None:
    """Its nodes must be known as ours, and left alone."""
    requirement = {"key": "a", "operator": "Within", "values": ["b"]}
    snapshot, problems = assembled({resources.NODE_POOLS: [a_pool(requirements=[requirement])]})
    (pool,) = snapshot.node_pools
    assert pool.name == "default"
    assert "operator" in pool.problem
    assert not problems[0].is_warning


def test_a_pool_without_its_class_is_not_ready_in_a_live_cluster() -> None:
    """Nothing could be launched for it; on the command line, planning needs only the catalogue."""
    live, live_problems = assembled({resources.NODE_POOLS: [a_pool()]}, is_live=True)
    offline, warnings = assembled({resources.NODE_POOLS: [a_pool()]})
    assert live.node_pools[0].is_ready is False
    assert offline.node_pools[0].is_ready is None
    assert all(problem.is_warning for problem in (*live_problems, *warnings))
    assert warnings[0].field == "spec.template.spec.nodeClassRef"
    assert str(live_problems[0]).endswith("there is no EC2NodeClass 'default': not ready")
    assert str(warnings[0]).endswith(": planned with the catalogue; on a cluster it would not be ready")


def test_a_class_of_another_provisioner_is_none_of_ours_even_with_the_same_name() -> None:
    """EKS Auto Mode's NodePools name the NodeClass `default`; nothing must be launched for them beside it."""
    pool = a_pool(nodeClassRef={"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"})
    objects = {resources.NODE_POOLS: [pool], resources.EC2_NODE_CLASSES: [a_class_manifest()]}
    live, problems = assembled(objects, is_live=True)
    assert live.node_pools[0].is_ready is False
    assert "there is no NodeClass 'default'" in str(problems[0])


def test_a_pool_with_its_class_gives_no_warning() -> None:
    """Otherwise, users learn to ignore warnings."""
    snapshot, problems = assembled({resources.NODE_POOLS: [a_pool()], resources.EC2_NODE_CLASSES: [a_class_manifest()]})
    assert problems == ()
    assert [node_class.name for node_class in snapshot.node_classes] == ["default"]


def test_nodes_get_their_attach_limits() -> None:
    """They are in another object of the same name."""
    csi = a_manifest("n", drivers=[{"name": "d", "allocatable": {"count": 3}}])
    snapshot, _ = assembled({resources.NODES: [a_manifest("n"), a_manifest("m")], resources.CSI_NODES: [csi]})
    assert [node.attach_limits for node in snapshot.nodes] == [{"d": 3}, {}]


def test_priority_classes_reach_the_pods() -> None:
    """The more important pod gets its place first."""
    classes = [
        {"metadata": {"name": "high"}, "value": 9},
        {"metadata": {"name": "usual"}, "value": 2, "globalDefault": True},
    ]
    snapshot, _ = assembled(
        {
            resources.PRIORITY_CLASSES: classes,
            resources.PODS: [a_manifest("a", priorityClassName="high"), a_manifest("b")],
        }
    )
    assert [pod.spec.priority for pod in snapshot.pods] == [9, 2]


def test_a_daemon_set_has_the_size_of_its_newest_pod() -> None:
    """Admission may add sidecars; the node affinity that the controller adds is left out."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    pinned = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}

    def a_daemon_pod(name: str, created: str, cpu: str) -> dict[str, Any]:
        owner = {"kind": "DaemonSet", "name": "agent", "apiVersion": "apps/v1"}
        meta = {"ownerReferences": [owner], "creationTimestamp": created}
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
        return a_manifest(name, meta=meta, nodeName="n", affinity=pinned, containers=containers)

    pods = [
        a_daemon_pod("new", "2026-11-02T00:00:00Z", "300m"),
        a_daemon_pod("old", "2026-11-01T00:00:00Z", "200m"),
    ]
    daemon = a_manifest("agent", template={"spec": {"containers": []}})
    snapshot, _ = assembled({resources.DAEMON_SETS: [daemon], resources.PODS: pods})
    (found,) = snapshot.daemon_sets
    assert found.spec.requests["cpu"] == 300
    assert found.spec.required_terms == ()


def test_every_kind_reaches_the_snapshot() -> None:
    """A missing kind is a rule that is not kept."""
    one = [a_manifest("x")]
    snapshot, problems = assembled(
        {
            resources.PERSISTENT_VOLUMES: one,
            resources.PERSISTENT_VOLUME_CLAIMS: one,
            resources.STORAGE_CLASSES: one,
            resources.VOLUME_ATTACHMENTS: one,
            resources.POD_DISRUPTION_BUDGETS: one,
            resources.NAMESPACES: one,
            resources.SERVICES: one,
            resources.REPLICA_SETS: one,
            resources.STATEFUL_SETS: one,
            resources.REPLICATION_CONTROLLERS: one,
        }
    )
    assert problems == ()
    assert {selector.kind for selector in snapshot.workload_selectors} == {
        "ReplicaSet",
        "StatefulSet",
        "ReplicationController",
    }
    for found in (
        snapshot.volumes,
        snapshot.volume_claims,
        snapshot.storage_classes,
        snapshot.attachments,
        snapshot.budgets,
        snapshot.namespaces,
        snapshot.services,
    ):
        assert [getattr(obj, "name", None) for obj in found] == ["x"]


def test_an_unreadable_pod_still_fills_its_node() -> None:
    """Otherwise, its node looks empty and is deleted with it."""
    bad = a_manifest("bad", meta={"labels": {"app": "web"}}, nodeName="n", tolerations=[{"operator": "Like"}])
    snapshot, _ = assembled({resources.PODS: [bad]})
    (pod,) = snapshot.pods
    assert (pod.node_name, pod.labels, pod.spec.requests) == ("n", {"app": "web"}, {"pods": 1})
    assert pod.unreadable.startswith("spec.tolerations[0].operator: unknown operator")
    assert pod.spec.problem == pod.unreadable


def test_an_unreadable_budget_protects_all_pods_of_its_namespace() -> None:
    """It may select any of them."""
    selector = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}
    bad = a_manifest("guard", meta={"namespace": "shop"}, selector=selector, minAvailable=1)
    snapshot, problems = assembled({resources.POD_DISRUPTION_BUDGETS: [bad]})
    (budget,) = snapshot.budgets
    assert (budget.namespace, budget.name, budget.disruptions_allowed) == ("shop", "guard", 0)
    assert budget.selector is not None
    assert budget.selector.matches({})
    assert [problem.subject for problem in problems] == ["PodDisruptionBudget shop/guard"]


def test_an_unreadable_node_exists_and_takes_no_more_pods() -> None:
    """If it were missing, its instance would be terminated; if it were usable, pods would be planned onto it."""
    bad = a_manifest("n", status={"capacity": {"cpu": "two"}}, providerID="aws:///a/i-1")
    snapshot, _ = assembled({resources.NODES: [bad]})
    (node,) = snapshot.nodes
    assert (node.name, node.provider_id, node.capacity) == ("n", "aws:///a/i-1", {})
    assert node.unreadable == "status.capacity.cpu: 'two' is not a quantity such as 500m, 2 or 1.5Gi"
    assert [taint.effect for taint in node.taints] == ["NoSchedule"]


def test_a_daemon_sets_pod_is_the_one_that_the_api_server_would_store() -> None:
    """A LimitRange gives it a size; it has none in the template."""
    limits = [{"type": "Container", "defaultRequest": {"cpu": "1"}}]
    bounds = {"metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": limits}}
    daemon = a_manifest("agent", template={"spec": {"containers": [{"name": "c"}]}})
    snapshot, _ = assembled({resources.DAEMON_SETS: [daemon], resources.LIMIT_RANGES: [bounds]})
    assert snapshot.daemon_sets[0].spec.requests == {"cpu": 1000, "pods": 1}


def test_a_limit_range_whose_amounts_cannot_be_read_costs_no_pod_its_place() -> None:
    """The DaemonSet was blamed for it, and had no size."""
    limits = [{"type": "Container", "defaultRequest": {"cpu": "1x"}}]
    bounds = {"metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": limits}}
    daemon = a_manifest("agent", template={"spec": {"containers": [{"resources": {"requests": {"memory": "1Mi"}}}]}})
    snapshot, problems = assembled({resources.DAEMON_SETS: [daemon], resources.LIMIT_RANGES: [bounds]})
    assert [str(problem).partition(" is")[0] for problem in problems] == [
        "LimitRange default/l: spec.limits[0].defaultRequest.cpu: '1x'"
    ]
    assert snapshot.daemon_sets[0].spec.requests == {"memory": 1 << 20, "pods": 1}


@pytest.mark.parametrize(
    ("metadata", "limits"),
    [
        ({"deletionTimestamp": "2026-11-28T11:59:00Z"}, []),
        ({"namespace": "ending"}, []),
        ({}, [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]),
    ],
)
def test_a_daemon_set_that_makes_no_pods_takes_no_room_on_new_nodes(
    metadata: dict[str, Any], limits: list[dict[str, Any]]
) -> None:
    """It is being deleted, its namespace is, or no such pod would be created."""
    ending = {"metadata": {"name": "ending"}, "status": {"phase": "Terminating"}}
    bounds = {"metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": limits}}
    daemon = a_manifest("agent", template={"spec": {"containers": [{"name": "c"}]}})
    daemon["metadata"] |= metadata
    given = {
        resources.DAEMON_SETS: [daemon],
        resources.NAMESPACES: [ending],
        resources.LIMIT_RANGES: [bounds],
    }
    snapshot, problems = assembled(given)
    assert (snapshot.daemon_sets, problems) == ((), ())


def test_an_unreadable_daemon_set_has_the_size_of_its_newest_pod() -> None:
    """Otherwise, new nodes have no room left for its pods."""
    spec = {"template": {"spec": {"tolerations": [{"operator": "Like"}]}}}
    owner = {"kind": "DaemonSet", "name": "agent", "apiVersion": "apps/v1", "uid": "u", "controller": True}
    pod = a_manifest(
        "agent-1", meta={"ownerReferences": [owner]}, containers=[{"resources": {"requests": {"cpu": "1"}}}]
    )
    snapshot, _ = assembled({resources.DAEMON_SETS: [a_manifest("agent", **spec)], resources.PODS: [pod]})
    (daemon,) = snapshot.daemon_sets
    assert daemon.spec.requests == {"cpu": 1000, "pods": 1}
    assert daemon.spec.problem  # what else the template says is not known


def test_a_class_that_cannot_be_read_is_kept_with_its_problem() -> None:
    """Its NodePools would otherwise seem to name a class that does not exist."""
    bad = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "bad"}, "spec": 3}
    snapshot, problems = assembled({resources.EC2_NODE_CLASSES: [bad, a_class_manifest("good")]})
    assert [(found.name, bool(found.problem)) for found in snapshot.node_classes] == [("bad", True), ("good", False)]
    assert [problem.resource for problem in problems] == [resources.EC2_NODE_CLASSES]


def test_an_invalid_pool_is_told_its_own_fault_alone() -> None:
    """Its class cannot be known, so a missing class is no news."""
    snapshot, problems = assembled({resources.NODE_POOLS: [a_pool(expireAfter="soon")]}, is_live=True)
    assert snapshot.node_pools[0].problem
    assert [problem.field for problem in problems] == ["spec.template.spec.expireAfter"]


@pytest.mark.parametrize(
    ("resource", "meta", "subject"),
    [
        (resources.PODS, {"name": "a", "namespace": "shop"}, "Pod shop/a"),
        (resources.PODS, {"name": "a"}, "Pod default/a"),
        (resources.NODES, {"name": "a"}, "Node a"),
        (resources.NODE_POOLS, {"name": "a"}, "NodePool a"),
        (resources.NODE_POOLS, {}, "NodePool without a name"),
    ],
)
def test_a_problem_names_its_object(resource: Resource, meta: dict[str, Any], subject: str) -> None:
    """Kinds without namespaces have none."""
    toleration, taint = [{"operator": "Like"}], [{"key": "a", "effect": "Never"}]
    spec = {"tolerations": toleration, "taints": taint}
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}
    _, problems = assembled({resource: [obj]})
    assert problems[0].subject == subject


def test_a_snapshot_has_what_it_was_asked_with() -> None:
    """Its moment, its cluster, the market and the settings: a lost one would be a default that nobody chose."""
    catalogue, options = Catalogue(default=(a_type(),)), Options(moves="gentle")
    found, problems = assemble({}, now=NOW, catalogue=catalogue, options=options, cluster="prod")
    assert (found.now, found.cluster, found.catalogue, found.options) == (NOW, "prod", catalogue, options)
    assert problems == ()
    assert assemble({}, now=NOW, catalogue=catalogue)[0] == Snapshot(now=NOW, catalogue=catalogue)


def test_objects_of_karpenter_reach_the_snapshot() -> None:
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "claim"},
        "spec": {**a_pool()["spec"]["template"]["spec"]},
    }
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "overlay"},
        "spec": {"requirements": [{"key": "team", "operator": "Exists"}], "price": "1"},
    }
    buffer = a_manifest("buffer", podTemplateRef={"name": "t"}, replicas=2)
    template = {"metadata": {"name": "t"}, "template": {"spec": {"containers": [{"name": "c"}]}}}
    snapshot, problems = assembled(
        {
            resources.NODE_POOLS: [a_pool()],
            resources.EC2_NODE_CLASSES: [a_class_manifest("default")],
            resources.NODE_CLAIMS: [claim],
            resources.NODE_OVERLAYS: [overlay],
            resources.CAPACITY_BUFFERS: [buffer],
            resources.POD_TEMPLATES: [template],
            resources.DEPLOYMENTS: [a_manifest("web")],
        }
    )
    assert problems == ()
    named = (snapshot.node_pools, snapshot.node_classes, snapshot.node_claims, snapshot.overlays, snapshot.buffers)
    assert [[one.name for one in found] for found in named] == [
        ["default"],
        ["default"],
        ["claim"],
        ["overlay"],
        ["buffer"],
    ]
    assert [(one.kind, one.name) for one in snapshot.workload_selectors] == [("Deployment", "web")]


@pytest.mark.parametrize(
    ("classes", "priority"),
    [
        ([], 0),
        ([("usual", 2, True), ("high", 9, False)], 2),
        ([("low", -5, True)], -5),
        ([("one", 3, True), ("other", 7, True)], 3),
    ],
)
def test_the_default_priority_is_that_of_the_default_class(classes: list[tuple[str, int, bool]], priority: int) -> None:
    """Of several, the lowest counts (admission plugin Priority, getDefaultPriorityClass)."""
    written = [{"metadata": {"name": name}, "value": value, "globalDefault": usual} for name, value, usual in classes]
    snapshot, _ = assembled({resources.PRIORITY_CLASSES: written, resources.PODS: [a_manifest("a")]})
    assert snapshot.pods[0].spec.priority == priority


@pytest.mark.parametrize("turned", [False, True])
def test_only_pods_of_the_daemon_set_that_are_there_have_its_size(*, turned: bool) -> None:
    """Not those of another kind of that name, not those that have finished; of one moment, the last by name."""

    def a_pod_of(
        name: str, cpu: str, *, kind: str = "DaemonSet", phase: str = "Running", day: int = 1
    ) -> dict[str, Any]:
        meta = {
            "ownerReferences": [{"kind": kind, "name": "agent"}],
            "creationTimestamp": f"2026-11-{day:02}T00:00:00Z",
        }
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
        return a_manifest(name, meta=meta, status={"phase": phase}, containers=containers)

    pods = [
        a_pod_of("a", "100m"),
        a_pod_of("b", "200m"),
        a_pod_of("c", "300m", kind="ReplicaSet", day=3),
        a_pod_of("d", "400m", phase="Failed", day=4),
    ]
    daemon = a_manifest("agent", template={"spec": {"containers": []}})
    snapshot, _ = assembled({resources.DAEMON_SETS: [daemon], resources.PODS: pods[::-1] if turned else pods})
    assert snapshot.daemon_sets[0].spec.requests["cpu"] == 200


@pytest.mark.parametrize(
    ("group", "kind", "is_ours"),
    [
        ("", "", True),
        ("karpenter.k8s.aws", "EC2NodeClass", True),
        ("karpenter.k8s.aws", "", True),
        ("", "EC2NodeClass", True),
        ("eks.amazonaws.com", "NodeClass", False),
        ("eks.amazonaws.com", "EC2NodeClass", False),
        ("karpenter.k8s.aws", "NodeClass", False),
    ],
)
def test_a_node_pool_is_ours_by_group_and_kind_of_its_class(group: str, kind: str, is_ours: bool) -> None:
    assert assemble_module._is_ours(ObjectRef(name="default", group=group, kind=kind)) is is_ours


def test_a_problem_is_a_fault_unless_it_says_that_it_is_a_warning() -> None:
    problem = ObjectProblem(resource=resources.PODS, position=-1, subject="Pod a/p", field="spec", problem="is odd")
    assert (problem.is_warning, str(problem)) == (False, "Pod a/p: spec: is odd")


# Reading nodes: their size, readiness and taints.


def test_a_node_has_its_allocatable_and_its_readiness() -> None:
    """Pods are placed by allocatable; liveness and repair depend on readiness."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T00:00:00Z"}
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}, "conditions": [ready]}
    node = a_node(status=status, providerID="aws:///a/i-1")
    assert (node.capacity, node.allocatable, node.provider_id) == ({"cpu": 4000}, {"cpu": 3900}, "aws:///a/i-1")
    assert node.is_ready
    assert node.ready_changed_at is not None
    assert not a_node().is_ready


def test_a_node_without_allocatable_has_its_capacity() -> None:
    """The API server fills it in this way."""
    assert a_node(status={"capacity": {"cpu": "4"}}).allocatable == {"cpu": 4000}


def test_a_cordoned_node_has_the_taint_once() -> None:
    """Kubernetes taints it; a manifest may have the field, the taint or both."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": NO_SCHEDULE}
    expected = (Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE),)
    assert a_node(unschedulable=True).taints == expected
    assert a_node(unschedulable=True, taints=[taint]).taints == expected


def test_an_unknown_effect_names_its_field() -> None:
    """If it were ignored, pods would be planned onto a node that refuses them."""
    with pytest.raises(InvalidInputError) as caught:
        a_node(taints=[{"key": "a", "effect": "Never"}])
    assert caught.value.field == "spec.taints[0].effect"


def test_a_node_that_cannot_be_read_keeps_its_known_taints_and_takes_no_pod() -> None:
    """Pods that run there go on, and none is planned onto it."""
    taints = [{"key": "a", "effect": "NoSchedule", "value": "v"}, {"key": "b", "effect": "Never"}]
    written_node = written(resources.NODES, spec={"taints": taints})
    found = assemble_module.unreadable_node(written_node, InvalidInputError("is wrong", field="spec.b"))
    assert found.taints == (Taint("a", NO_SCHEDULE, "v"), Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE))
    assert found.unreadable == "spec.b: is wrong"
    assert assemble_module.unreadable_node(written_node, InvalidInputError("is wrong")).unreadable == "is wrong"


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule", "NoExecute"])
def test_the_three_effects_are_read(effect: str) -> None:
    assert a_node(taints=[{"key": "a", "effect": effect, "value": "v"}]).taints == (Taint("a", effect, "v"),)


def test_conditions_are_in_the_order_of_their_types() -> None:
    """Two readings of one node are then equal."""
    conditions = [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}]
    node = a_node(status={"conditions": conditions})
    assert [(one.type, one.status) for one in node.conditions] == [("DiskPressure", "True"), ("Ready", "False")]
    assert (node.is_ready, node.ready_changed_at) == (False, None)


def test_every_field_of_a_node_is_read() -> None:
    """What is lost is a node of somebody else's, one without a limit of volumes, or one that is not being deleted."""
    moment = datetime(2026, 3, 1, 10, tzinfo=UTC)
    time = "2026-03-01T10:00:00Z"
    meta = {
        "uid": "u",
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
        "creationTimestamp": time,
        "deletionTimestamp": time,
        "finalizers": ["example.com/f"],
    }
    status = {
        "capacity": {"cpu": "4"},
        "allocatable": {"cpu": "3900m"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": time},
            {"type": "DiskPressure", "status": "False", "lastTransitionTime": time},
        ],
    }
    found = assemble_module.node(
        written(resources.NODES, meta=meta, spec={"providerID": "aws:///a/i-1"}, status=status), {"ebs.csi.aws.com": 25}
    )
    assert found == Node(
        name="x",
        uid="u",
        provider_id="aws:///a/i-1",
        labels={"team": "a"},
        annotations={"note": "b"},
        created_at=moment,
        deleted_at=moment,
        finalizers=("example.com/f",),
        is_ready=True,
        ready_changed_at=moment,
        conditions=(NodeCondition("DiskPressure", "False", moment), NodeCondition("Ready", "True", moment)),
        capacity={"cpu": 4000},
        allocatable={"cpu": 3900},
        attach_limits={"ebs.csi.aws.com": 25},
    )
    broken = msgspec.structs.replace(written(resources.NODES), unreadable="status: must be an object")
    with pytest.raises(InvalidInputError, match="status: must be an object"):
        assemble_module.node(broken)


# A requirement on a zone id becomes one on its zone once the zone is known.


TYPE = a_type("m")
IDS = dict(zip(("use1-az4", "use1-az6", "use1-az1"), ZONES, strict=True))
CLASS = NodeClass(name="default", zone_ids=IDS)
ASKED = Requirement.one_of(labels.ZONE_ID, "use1-az6")
MEANT = Requirement.one_of(labels.ZONE, ZONES[1])


def test_a_pod_gets_a_node_in_the_zone_of_its_required_id() -> None:
    """Otherwise, it waits forever: no offering has a zone id."""
    world = a_snapshot(types=(TYPE,), node_classes=(CLASS,), pods=(a_pod("p", node_selector=(ASKED,)),))
    assert claim_of(schedule(with_zones(world)), "p").zones == (ZONES[1],)


def test_a_node_in_flight_takes_the_pod_that_it_was_launched_for() -> None:
    """It has no id before it joins; otherwise, another node is launched, and another after that."""
    claim, node = a_node_of(TYPE, "n", zone=ZONES[1])
    coming = msgspec.structs.replace(claim, node_name="")
    world = a_snapshot(
        types=(TYPE,), node_classes=(CLASS,), node_claims=(coming,), pods=(a_pod("p", node_selector=(ASKED,)),)
    )
    assert places(schedule(with_zones(world))) == {"p": coming.name}
    assert node.name != coming.name


def test_a_pool_that_requires_an_id_does_not_drift_because_of_it() -> None:
    """Otherwise, its claims are replaced again and again: their labels name the zone."""
    pool = zone_ids_a_pool("default", ASKED)
    claim, node = a_node_of(TYPE, "n", zone=ZONES[1])
    world = with_zones(
        a_snapshot(types=(TYPE,), node_classes=(CLASS,), node_pools=(pool,), nodes=(node,), node_claims=(claim,))
    )
    assert world.node_pools[0].requirements == (MEANT,)
    assert DriftCheck(world).reason(world.node_claims[0], world.node_pools[0]) == ""


def test_every_field_that_can_name_a_zone_id_is_translated() -> None:
    """Otherwise, a pod stays pending, or is placed where it must not be."""
    spec = PodSpec(
        requests={"pods": 1},
        required_terms=(NodeSelectorTerm((Requirement.of(labels.ZONE_ID, "NotIn", ["use1-az4", "unheard-of"]),)),),
        spreads=(TopologySpread(labels.ZONE_ID, 1),),
        anti_affinity=(PodAffinityTerm(labels.ZONE_ID),),
    )
    volume = PersistentVolume(name="v", node_terms=(NodeSelectorTerm((ASKED,)),))
    pod = msgspec.structs.replace(a_pod("p"), spec=spec)
    storage = StorageClass(name="s", allowed_topologies=(NodeSelectorTerm((ASKED,)),))
    world = with_zones(
        a_snapshot(
            node_classes=(CLASS,),
            pods=(pod,),
            volumes=(volume,),
            storage_classes=(storage,),
            node_pools=(zone_ids_a_pool("default", ASKED),),
        )
    )
    read = world.pods[0].spec
    assert read.required_terms[0].requirements == (Requirement.of(labels.ZONE, "NotIn", [ZONES[0]]),)
    assert (read.spreads[0].topology_key, read.anti_affinity[0].topology_key) == (labels.ZONE, labels.ZONE)
    assert world.volumes[0].node_terms[0].requirements == (MEANT,)
    assert world.storage_classes[0].allowed_topologies[0].requirements == (MEANT,)
    assert world.node_pools[0].requirements == (MEANT,)


def test_pods_are_spread_by_a_default_along_zone_ids() -> None:
    """Otherwise, every pod without constraints of its own waits forever: no offering has a zone id."""
    world = a_snapshot(
        types=(TYPE,),
        node_classes=(CLASS,),
        pods=tuple(a_pod(name, labels={"app": "web"}) for name in ("p", "q")),
        services=(Service(namespace="default", name="web", selector={"app": "web"}),),
        options=Options(default_spreads=(TopologySpread(labels.ZONE_ID, 1),)),
    )
    plan = schedule(with_zones(world))
    assert plan.unschedulable == ()
    assert len({claim.zones for claim in plan.claims}) == 2


def test_an_unknown_id_stays_and_is_explained() -> None:
    """Any zone in its place would be a guess."""
    pod = a_pod("p", node_selector=(Requirement.one_of(labels.ZONE_ID, "use1-az9"),))
    world = with_zones(a_snapshot(types=(TYPE,), node_classes=(CLASS,), pods=(pod,)))
    (entry,) = schedule(world).unschedulable
    assert labels.ZONE_ID in entry.message


def test_ids_are_learned_from_subnets_and_from_nodes() -> None:
    """Subnets give them before the first node exists, nodes give those of zones without a subnet today."""
    subnets = [{"id": "subnet-1", "zone": ZONES[1], "zoneID": "use1-az6"}, {"id": "subnet-2", "zone": ZONES[0]}]
    node_class = api.node_class(a_class_manifest(status={"subnets": subnets}))
    assert node_class.zone_ids == {"use1-az6": ZONES[1]}
    claim, node = a_node_of(TYPE, "n", zone=ZONES[2])
    node = msgspec.structs.replace(node, labels={**node.labels, labels.ZONE_ID: "use1-az1"})
    pod = a_pod("p", node_selector=(Requirement.one_of(labels.ZONE_ID, "use1-az1"),))
    world = with_zones(a_snapshot(nodes=(node,), node_claims=(claim,), node_classes=(node_class,), pods=(pod,)))
    assert world.pods[0].spec.node_selector == (Requirement.one_of(labels.ZONE, ZONES[2]),)


def test_every_rule_along_zone_ids_is_one_along_zones_and_all_others_stay() -> None:
    """Required and preferred rules, of pods and of nodes."""

    def rules(key: str, asked: Requirement) -> dict[str, Any]:
        near, host = PodAffinityTerm(key), PodAffinityTerm(labels.HOSTNAME)
        return {
            "node_selector": (asked,),
            "preferred_terms": (PreferredTerm(5, NodeSelectorTerm((asked,))),),
            "spreads": (TopologySpread(key, 1), TopologySpread(labels.HOSTNAME, 1)),
            "affinity": (near, host),
            "anti_affinity": (near, host),
            "preferred_affinity": (WeightedPodAffinityTerm(1, near), WeightedPodAffinityTerm(2, host)),
            "preferred_anti_affinity": (WeightedPodAffinityTerm(3, near), WeightedPodAffinityTerm(4, host)),
        }

    pods = (a_pod("p", **rules(labels.ZONE_ID, ASKED)), a_pod("q"))
    world = with_zones(a_snapshot(node_classes=(CLASS,), pods=pods))
    assert world.pods[0].spec == a_pod("p", **rules(labels.ZONE, MEANT)).spec
    assert world.pods[1] is pods[1]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (Requirement.of(labels.ZONE_ID, "In", ["use1-az6", "use1-az9"]), MEANT),
        (Requirement.of(labels.ZONE_ID, "In", ["use1-az9"]), None),
        (Requirement.of(labels.ZONE_ID, "NotIn", ["use1-az6"]), Requirement.of(labels.ZONE, "NotIn", [ZONES[1]])),
        (Requirement.of(labels.ZONE_ID, "NotIn", ["use1-az9"]), Requirement.of(labels.ZONE, "Exists")),
        (Requirement.of(labels.ZONE_ID, "Exists"), Requirement.of(labels.ZONE, "Exists")),
        (Requirement.of(labels.ZONE_ID, "Gt", ["1"]), None),
        (Requirement.of(labels.ZONE_ID, "Lt", ["1"]), None),
        (Requirement.of("other", "In", ["use1-az6"]), None),
    ],
)
def test_each_operator_keeps_its_meaning(asked: Requirement, meant: Requirement | None) -> None:
    """What cannot be translated stays, and is explained where it matters."""
    assert requirements_with_zones([asked], IDS) == (meant or asked,)


def test_a_node_that_lacks_one_of_the_names_teaches_nothing() -> None:
    nodes = [
        msgspec.structs.replace(a_node_of(TYPE, name)[1], labels=own)
        for name, own in (
            ("a", {labels.ZONE: "z1", labels.ZONE_ID: "i1"}),
            ("b", {labels.ZONE: "z2"}),
            ("c", {labels.ZONE_ID: "i3"}),
        )
    ]
    assert zones_by_id([], nodes) == {"i1": "z1"}
    assert zones_by_id([NodeClass(name="c", zone_ids={"i1": "of-class"})], nodes) == {"i1": "of-class"}


def test_without_a_known_zone_nothing_is_translated() -> None:
    """A rule along zones that nobody knows would be another rule."""
    pod = a_pod(
        "p", node_selector=(Requirement.of(labels.ZONE_ID, "Exists"),), spreads=(TopologySpread(labels.ZONE_ID, 1),)
    )
    world = a_snapshot(
        pods=(pod,), node_pools=(zone_ids_a_pool("default", Requirement.of(labels.ZONE_ID, "NotIn", ["use1-az6"])),)
    )
    assert with_zones(world) is world


# Whose NodePool one is: Karpenter's core takes any provider's class, and ours is one of them.


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        (labels.AWS_GROUP, "EC2NodeClass"),
        (labels.AWS_GROUP, "NodeClass"),
        (labels.CORE_GROUP, "EC2NodeClass"),
        ("", ""),
        ("", "EC2NodeClass"),
        ("", "Ec2NodeClass"),
        ("karpenter.k8s.aw", "EC2NodeClass"),
        ("karpenter.k8s.aws.", "NodeClass"),
        ("karpenter.example.com", "EC2NodeClas"),
        ("", "NodeClass"),
        ("karpenter.k8s.asw", "E2CNodeClass"),
    ],
)
def test_ours_and_misspellings_of_ours_have_no_other_owner(group: str, kind: str) -> None:
    """Someone else's NodePool is left alone in silence; a typing error must be reported, not passed over."""
    assert owner_of(group, kind) == ""


@pytest.mark.parametrize(
    ("group", "kind", "owner"),
    [
        (AUTO_MODE_GROUP, "NodeClass", "EKS Auto Mode (eks.amazonaws.com)"),
        (AUTO_MODE_GROUP, "EC2NodeClass", "EKS Auto Mode (eks.amazonaws.com)"),
        ("karpenter.azure.com", "AKSNodeClass", "another provider (karpenter.azure.com, AKSNodeClass)"),
        ("karpenter.k8s.gcp", "GCENodeClass", "another provider (karpenter.k8s.gcp, GCENodeClass)"),
        (
            "karpenter.k8s.alibabacloud",
            "ECSNodeClass",
            "another provider (karpenter.k8s.alibabacloud, ECSNodeClass)",
        ),
        ("karpenter.k8s.oracle", "OCINodeClass", "another provider (karpenter.k8s.oracle, OCINodeClass)"),
        ("example.com", "EC2NodeClass", "another provider (example.com, EC2NodeClass)"),
        ("example.com", "", "another provider (example.com, no kind)"),
        ("", "AKSNodeClass", "another provider (no group, AKSNodeClass)"),
    ],
)
def test_other_providers_are_named(group: str, kind: str, owner: str) -> None:
    """A NodePool of EKS Auto Mode or of another provider is launched by its own controller: two would launch twice."""
    assert owner_of(group, kind) == owner


def test_a_calendar_that_cannot_be_followed_costs_its_own_node_pools_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a calendar raised ended every run."""

    def followed(snapshot: Snapshot) -> Snapshot:
        if any(calendar.name == "odd" for calendar in snapshot.calendars):
            raise OverflowError
        return with_calendars(snapshot)

    monkeypatch.setattr(assemble_module, "with_calendars", followed)
    rule = {"name": "always", "settings": {"weight": 7}}
    calendars = [
        {"metadata": {"name": name}, "spec": {"nodePools": {"names": [pool]}, "rules": [rule]}}
        for name, pool in (("odd", "default"), ("plain", "other"))
    ]
    pools = [a_pool(), {**a_pool(), "metadata": {"name": "other"}}]
    objects = {
        resources.NODE_POOLS: pools,
        resources.EC2_NODE_CLASSES: [a_class_manifest()],
        resources.CALENDARS: calendars,
    }
    snapshot, problems = assemble(objects, now=NOW, catalogue=Catalogue())
    assert [(pool.name, bool(pool.problem), pool.weight) for pool in snapshot.node_pools] == [
        ("default", True, 0),
        ("other", False, 7),
    ]
    assert [problem.set_aside.object for problem in problems if problem.set_aside] == ["Calendar/odd"]
