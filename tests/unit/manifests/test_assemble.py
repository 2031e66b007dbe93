"""From decoded objects to a snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from core import codec
from core.manifests import assemble as assemble_module
from core.manifests.assemble import ObjectProblem, assemble
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import decoding as wire
from core.manifests.wire.api_resources import Resource
from core.model.catalogue import Catalogue
from core.model.node_claim import ObjectRef
from core.model.snapshot import Options, Snapshot
from core.model.values import quantity
from tests.builders import NOW, a_class_manifest, a_type


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
    decoded = {resource: [wire.from_object(resource, obj) for obj in found] for resource, found in objects.items()}
    return assemble(decoded, now=NOW, catalogue=Catalogue(), is_live=is_live)


def test_a_bad_object_is_named_and_the_rest_is_read() -> None:
    """One unreadable pod must not stop all others."""
    bad = a_manifest("bad", tolerations=[{"operator": "Like"}])
    snapshot, problems = assembled({kinds.PODS: [a_manifest("a"), bad, a_manifest("c")]})
    assert [(pod.name, bool(pod.unreadable)) for pod in snapshot.pods] == [("a", False), ("bad", True), ("c", False)]
    (problem,) = problems
    assert (problem.resource, problem.position, problem.is_warning) == (kinds.PODS, 1, False)
    known = "use one of Equal, Exists, Lt, Gt"
    assert str(problem) == f"Pod default/bad: spec.tolerations[0].operator: unknown operator 'Like', {known}"


@pytest.mark.parametrize("requests", [[{"cpu": "1e17"}], [{"memory": "7Ei"}] * 3, [{"nvidia.com/gpu": "1e99"}]])
def test_a_pod_that_asks_for_more_than_can_be_counted_stops_nothing(requests: list[dict[str, str]]) -> None:
    """The API server takes `cpu: 1e17`. One such pod made every decision fail, of all pods of the cluster."""
    containers = [{"name": f"c{n}", "resources": {"requests": asked}} for n, asked in enumerate(requests)]
    pods = [a_manifest("huge", containers=containers), a_manifest("small", containers=[{"name": "c"}])]
    snapshot, problems = assembled({kinds.PODS: pods})
    assert not problems
    assert codec.decode_snapshot(codec.encode_snapshot(snapshot)).pods == snapshot.pods
    assert max(snapshot.pods[0].spec.requests.values()) == quantity.AMOUNT_MAX


def test_a_bad_node_pool_stays_and_is_marked() -> None:
    """Its nodes must be known as ours, and left alone."""
    requirement = {"key": "a", "operator": "Within", "values": ["b"]}
    snapshot, problems = assembled({kinds.NODE_POOLS: [a_pool(requirements=[requirement])]})
    (pool,) = snapshot.node_pools
    assert pool.name == "default"
    assert "operator" in pool.problem
    assert not problems[0].is_warning


def test_a_pool_without_its_class_is_not_ready_in_a_live_cluster() -> None:
    """Nothing could be launched for it; on the command line, planning needs only the catalogue."""
    live, live_problems = assembled({kinds.NODE_POOLS: [a_pool()]}, is_live=True)
    offline, warnings = assembled({kinds.NODE_POOLS: [a_pool()]})
    assert live.node_pools[0].is_ready is False
    assert offline.node_pools[0].is_ready is None
    assert all(problem.is_warning for problem in (*live_problems, *warnings))
    assert warnings[0].field == "spec.template.spec.nodeClassRef"
    assert str(live_problems[0]).endswith("there is no EC2NodeClass 'default': not ready")
    assert str(warnings[0]).endswith(": planned with the catalogue; on a cluster it would not be ready")


def test_a_class_of_another_provisioner_is_none_of_ours_even_with_the_same_name() -> None:
    """EKS Auto Mode's NodePools name the NodeClass `default`; nothing must be launched for them beside it."""
    pool = a_pool(nodeClassRef={"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"})
    objects = {kinds.NODE_POOLS: [pool], kinds.EC2_NODE_CLASSES: [a_class_manifest()]}
    live, problems = assembled(objects, is_live=True)
    assert live.node_pools[0].is_ready is False
    assert "there is no NodeClass 'default'" in str(problems[0])


def test_a_pool_with_its_class_gives_no_warning() -> None:
    """Otherwise, users learn to ignore warnings."""
    snapshot, problems = assembled({kinds.NODE_POOLS: [a_pool()], kinds.EC2_NODE_CLASSES: [a_class_manifest()]})
    assert problems == ()
    assert [node_class.name for node_class in snapshot.node_classes] == ["default"]


def test_nodes_get_their_attach_limits() -> None:
    """They are in another object of the same name."""
    csi = a_manifest("n", drivers=[{"name": "d", "allocatable": {"count": 3}}])
    snapshot, _ = assembled({kinds.NODES: [a_manifest("n"), a_manifest("m")], kinds.CSI_NODES: [csi]})
    assert [node.attach_limits for node in snapshot.nodes] == [{"d": 3}, {}]


def test_priority_classes_reach_the_pods() -> None:
    """The more important pod gets its place first."""
    classes = [
        {"metadata": {"name": "high"}, "value": 9},
        {"metadata": {"name": "usual"}, "value": 2, "globalDefault": True},
    ]
    snapshot, _ = assembled(
        {kinds.PRIORITY_CLASSES: classes, kinds.PODS: [a_manifest("a", priorityClassName="high"), a_manifest("b")]}
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
    snapshot, _ = assembled({kinds.DAEMON_SETS: [daemon], kinds.PODS: pods})
    (found,) = snapshot.daemon_sets
    assert found.spec.requests["cpu"] == 300
    assert found.spec.required_terms == ()


def test_every_kind_reaches_the_snapshot() -> None:
    """A missing kind is a rule that is not kept."""
    one = [a_manifest("x")]
    snapshot, problems = assembled(
        {
            kinds.PERSISTENT_VOLUMES: one,
            kinds.PERSISTENT_VOLUME_CLAIMS: one,
            kinds.STORAGE_CLASSES: one,
            kinds.VOLUME_ATTACHMENTS: one,
            kinds.POD_DISRUPTION_BUDGETS: one,
            kinds.NAMESPACES: one,
            kinds.SERVICES: one,
            kinds.REPLICA_SETS: one,
            kinds.STATEFUL_SETS: one,
            kinds.REPLICATION_CONTROLLERS: one,
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
    snapshot, _ = assembled({kinds.PODS: [bad]})
    (pod,) = snapshot.pods
    assert (pod.node_name, pod.labels, pod.spec.requests) == ("n", {"app": "web"}, {"pods": 1})
    assert pod.unreadable.startswith("spec.tolerations[0].operator: unknown operator")
    assert pod.spec.problem == pod.unreadable


def test_an_unreadable_budget_protects_all_pods_of_its_namespace() -> None:
    """It may select any of them."""
    selector = {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}
    bad = a_manifest("guard", meta={"namespace": "shop"}, selector=selector, minAvailable=1)
    snapshot, problems = assembled({kinds.POD_DISRUPTION_BUDGETS: [bad]})
    (budget,) = snapshot.budgets
    assert (budget.namespace, budget.name, budget.disruptions_allowed) == ("shop", "guard", 0)
    assert budget.selector is not None
    assert budget.selector.matches({})
    assert [problem.subject for problem in problems] == ["PodDisruptionBudget shop/guard"]


def test_an_unreadable_node_exists_and_takes_no_more_pods() -> None:
    """If it were missing, its instance would be terminated; if it were usable, pods would be planned onto it."""
    bad = a_manifest("n", status={"capacity": {"cpu": "two"}}, providerID="aws:///a/i-1")
    snapshot, _ = assembled({kinds.NODES: [bad]})
    (node,) = snapshot.nodes
    assert (node.name, node.provider_id, node.capacity) == ("n", "aws:///a/i-1", {})
    assert node.unreadable == "status.capacity.cpu: 'two' is not a quantity such as 500m, 2 or 1.5Gi"
    assert [taint.effect for taint in node.taints] == ["NoSchedule"]


def test_an_unreadable_daemon_set_has_the_size_of_its_newest_pod() -> None:
    """Otherwise, new nodes have no room left for its pods."""
    spec = {"template": {"spec": {"tolerations": [{"operator": "Like"}]}}}
    owner = {"kind": "DaemonSet", "name": "agent", "apiVersion": "apps/v1", "uid": "u", "controller": True}
    pod = a_manifest(
        "agent-1", meta={"ownerReferences": [owner]}, containers=[{"resources": {"requests": {"cpu": "1"}}}]
    )
    snapshot, _ = assembled({kinds.DAEMON_SETS: [a_manifest("agent", **spec)], kinds.PODS: [pod]})
    (daemon,) = snapshot.daemon_sets
    assert daemon.spec.requests == {"cpu": 1000, "pods": 1}
    assert daemon.spec.problem  # what else the template says is not known


def test_a_class_that_cannot_be_read_is_kept_with_its_problem() -> None:
    """Its NodePools would otherwise seem to name a class that does not exist."""
    bad = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "bad"}, "spec": 3}
    snapshot, problems = assembled({kinds.EC2_NODE_CLASSES: [bad, a_class_manifest("good")]})
    assert [(found.name, bool(found.problem)) for found in snapshot.node_classes] == [("bad", True), ("good", False)]
    assert [problem.resource for problem in problems] == [kinds.EC2_NODE_CLASSES]


def test_an_invalid_pool_is_told_its_own_fault_alone() -> None:
    """Its class cannot be known, so a missing class is no news."""
    snapshot, problems = assembled({kinds.NODE_POOLS: [a_pool(expireAfter="soon")]}, is_live=True)
    assert snapshot.node_pools[0].problem
    assert [problem.field for problem in problems] == ["spec.template.spec.expireAfter"]


@pytest.mark.parametrize(
    ("resource", "meta", "subject"),
    [
        (kinds.PODS, {"name": "a", "namespace": "shop"}, "Pod shop/a"),
        (kinds.PODS, {"name": "a"}, "Pod default/a"),
        (kinds.NODES, {"name": "a"}, "Node a"),
        (kinds.NODE_POOLS, {"name": "a"}, "NodePool a"),
        (kinds.NODE_POOLS, {}, "NodePool without a name"),
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
            kinds.NODE_POOLS: [a_pool()],
            kinds.EC2_NODE_CLASSES: [a_class_manifest("default")],
            kinds.NODE_CLAIMS: [claim],
            kinds.NODE_OVERLAYS: [overlay],
            kinds.CAPACITY_BUFFERS: [buffer],
            kinds.POD_TEMPLATES: [template],
            kinds.DEPLOYMENTS: [a_manifest("web")],
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
        ([("one", 3, True), ("other", 7, True)], 7),
    ],
)
def test_the_default_priority_is_that_of_the_default_class(classes: list[tuple[str, int, bool]], priority: int) -> None:
    """Of several, Kubernetes takes one; a pod of too high a priority keeps its place."""
    written = [{"metadata": {"name": name}, "value": value, "globalDefault": usual} for name, value, usual in classes]
    snapshot, _ = assembled({kinds.PRIORITY_CLASSES: written, kinds.PODS: [a_manifest("a")]})
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
    snapshot, _ = assembled({kinds.DAEMON_SETS: [daemon], kinds.PODS: pods[::-1] if turned else pods})
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
    problem = ObjectProblem(resource=kinds.PODS, position=-1, subject="Pod a/p", field="spec", problem="is odd")
    assert (problem.is_warning, str(problem)) == (False, "Pod a/p: spec: is odd")
