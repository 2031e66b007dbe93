"""What users of node provisioners reported, as clusters to decide about; k8s# is kubernetes-sigs/karpenter."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any, Final

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.manifests.pods import PodTranslator
from core.manifests.wire import resources
from core.manifests.wire.decoding import from_object
from core.model.catalogue import InstanceType
from core.model.plan import Command
from core.model.pod import SCHEDULE_ANYWAY, TopologySpread
from core.model.snapshot import IGNORE, DaemonSet, FeatureGates, Options, PodDisruptionBudget, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, Toleration
from core.reasons.nodes import NodeReason
from core.scheduling import schedule
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, OPEN, blocked, drifted, pod_on

SPOT_TO_SPOT = Options(feature_gates=FeatureGates(spot_to_spot_consolidation=True))

MEMORY_MAX: Final = 128 * 2**20
"""Bytes that planning may take on top of the cluster itself; the function has 1,769 MB."""
SEARCHED = Options(improve_iterations=40)


def fleet(types: tuple[InstanceType, ...], nodes: dict[str, tuple[InstanceType, str]], **changes: Any) -> Snapshot:
    """On-demand nodes, each of a type and with one pod that requests so much CPU."""
    pairs = [a_node_of(instance_type, name) for name, (instance_type, _) in nodes.items()]
    fields: dict[str, Any] = {
        "types": types,
        "node_claims": tuple(claim for claim, _ in pairs),
        "nodes": tuple(node for _, node in pairs),
        "node_pools": (a_pool("default", ON_DEMAND, disruption=OPEN),),
        "pods": tuple(pod_on(name, cpu=cpu) for name, (_, cpu) in nodes.items()),
        **changes,
    }
    return a_snapshot(**fields)


def launched(command: Command) -> list[str]:
    """The cheapest type of each new node."""
    return [claim.instance_types[0] for claim in command.replacements]


def test_three_half_full_nodes_become_two_of_a_third_type() -> None:
    """Karpenter replaces several nodes with one at most, and no single type holds them all (k8s#1442, k8s#2839)."""
    a, b, c = a_type("a", cpu="8", price=0.4), a_type("b", cpu="4", price=0.2), a_type("c", cpu="7", price=0.3)
    snapshot = fleet((a, b, c), {"a1": (a, "5"), "a2": (a, "5"), "b1": (b, "2")})
    commands = disrupt(snapshot).commands
    assert sorted(node for command in commands for node in command.nodes) == ["a1", "a2", "b1"]
    assert [name for command in commands for name in launched(command)] == ["c", "c"]


def test_two_nodes_full_of_cpu_join_on_one_type_of_another_family() -> None:
    """Karpenter looks for one node that holds both and stops at the family of the first (k8s#1962)."""
    compute = a_type("c.large", cpu="2", memory="4Gi", price=0.09)
    general = a_type("m.xlarge", cpu="4", memory="16Gi", price=0.13)
    nodes = {"c1": (compute, "1900m"), "c2": (compute, "1900m")}
    (command,) = disrupt(fleet((compute, general), nodes)).commands
    assert (sorted(command.nodes), launched(command)) == (["c1", "c2"], ["m.xlarge"])


def test_pods_of_three_and_one_cpu_get_two_small_nodes_and_not_a_large_one() -> None:
    """Greedy packing adds the small pod to the node of the large one and doubles it (k8s#2457)."""
    types = tuple(a_type(f"t{cpu}", cpu=str(cpu), price=cpu / 20) for cpu in (2, 4, 8))
    pods = (a_pod("large", cpu="3500m"), a_pod("little", cpu="1500m"))
    plan = schedule(a_snapshot(types=types, pods=pods, node_pools=(a_pool("default", ON_DEMAND),), options=SEARCHED))
    assert sorted(claim.instance_types[0] for claim in plan.claims) == ["t2", "t4"]


@pytest.mark.parametrize("options", [Options(), SPOT_TO_SPOT], ids=["gate off", "gate on"])
@pytest.mark.parametrize("capacity_type", [labels.ON_DEMAND, labels.SPOT])
def test_a_node_is_not_replaced_by_one_of_its_own_type(options: Options, capacity_type: str) -> None:
    """A nine tenths full node was replaced by its like 6,000 times a day, for a zone that was a little cheaper (k8s#2388)."""
    small, large = a_type("small", cpu="4", price=0.2), a_type("large", cpu="8", price=0.4)
    offerings = tuple(
        msgspec.structs.replace(o, price=o.price * 97 // 100) if o.zone == ZONES[1] else o for o in large.offerings
    )
    large = msgspec.structs.replace(large, offerings=offerings)
    claim, node = a_node_of(large, "n1", capacity_type=capacity_type)
    pool = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, capacity_type), disruption=OPEN)
    snapshot = a_snapshot(
        types=(small, large),
        node_claims=(claim,),
        nodes=(node,),
        node_pools=(pool,),
        pods=(pod_on("n1", cpu="7200m"),),
        options=options,
    )
    assert disrupt(snapshot).commands == ()


def test_a_single_replica_whose_budget_lets_none_go_is_skipped_and_told() -> None:
    """Its node was tainted, half emptied and then stuck for days, with all others waiting behind it (k8s#2600)."""
    small, large = a_type("small", cpu="4", price=0.2), a_type("large", cpu="16", price=0.8)
    single = pod_on("n1", "single", cpu="1", labels={"app": "single"})
    guard = PodDisruptionBudget(
        namespace="default",
        name="single",
        selector=a_selector(app="single"),
        min_available="1",
        disruptions_allowed=0,
        expected_pods=1,
    )
    nodes = {"n1": (large, "1"), "n2": (large, "1")}
    for drift in (False, True):
        snapshot = fleet((small, large), nodes, pods=(single, pod_on("n2", cpu="1")), budgets=(guard,))
        if drift:
            claims = tuple(drifted((claim, snapshot.nodes[0]))[0] for claim in snapshot.node_claims)
            snapshot = msgspec.structs.replace(snapshot, node_claims=claims)
        plan = disrupt(snapshot)
        assert [node for command in plan.commands for node in command.nodes] == ["n2"]
        assert blocked(plan)["n1"] == NodeReason.POD_DISRUPTION_BUDGET


def test_a_daemon_that_tolerates_all_counts_on_tainted_nodes_and_only_where_it_runs() -> None:
    """Nodes came out too small: the overhead of a DaemonSet was left out, or counted on types it does not run on (k8s#2838)."""
    taint = Taint("team", "NoSchedule", "a")
    types = (a_type("t2", cpu="2", price=0.1), a_type("t4", cpu="4", price=0.2))
    everywhere = a_daemon("everywhere", cpu="500m", tolerations=(Toleration(operator="Exists"),))
    only_large = a_daemon(
        "only-large",
        cpu="1",
        tolerations=(Toleration(operator="Exists"),),
        node_selector=(Requirement.one_of(labels.INSTANCE_TYPE, "t4"),),
    )
    pool = a_pool("default", ON_DEMAND, taints=(taint,))
    tolerations = (Toleration(key="team", operator="Exists"),)

    def types_for(cpu: str) -> list[str]:
        pods = (a_pod("p", cpu=cpu, tolerations=tolerations),)
        plan = schedule(a_snapshot(types=types, pods=pods, node_pools=(pool,), daemon_sets=(everywhere, only_large)))
        return [name for claim in plan.claims for name in claim.instance_types]

    assert types_for("1500m") == ["t2", "t4"]
    assert types_for("1600m") == ["t4"]
    assert types_for("2600m") == []


def a_daemon(name: str, **spec: Any) -> DaemonSet:
    return DaemonSet(namespace="kube-system", name=name, spec=a_pod(name, memory="64Mi", **spec).spec)


def test_a_hundred_pods_that_would_rather_be_apart_share_nodes() -> None:
    """A preference along hostnames bought a node for each pod; `preferencePolicy: Ignore` does not (k8s#666)."""
    types = tuple(a_type(f"t{cpu}", cpu=str(cpu), pods="110", price=cpu / 20) for cpu in (2, 4, 8, 16))
    spread = TopologySpread(labels.HOSTNAME, 1, SCHEDULE_ANYWAY, a_selector(app="web"))
    pods = tuple(
        a_pod(f"p{n}", cpu="100m", memory="128Mi", labels={"app": "web"}, spreads=(spread,)) for n in range(100)
    )
    pools, options = (a_pool("default", ON_DEMAND),), Options(preference_policy=IGNORE)
    plan = schedule(a_snapshot(types=types, pods=pods, node_pools=pools, options=options))
    assert not plan.unschedulable
    assert len(plan.claims) <= 10


@pytest.mark.parametrize("status", ["resized in place", "written by a webhook"])
def test_a_replacement_is_sized_by_what_pods_will_request(status: str) -> None:
    """A pod that grew got a new node of its old size, on which it did not fit; then another (k8s#829)."""
    container: dict[str, Any] = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    states: dict[str, Any] = {
        "name": "main",
        "allocatedResources": {"cpu": "3"},
        "resources": {"requests": {"cpu": "3"}},
    }
    if status == "written by a webhook":
        container["resources"]["requests"]["cpu"] = "3"
    written = {
        "metadata": {"name": "p", "namespace": "default", "ownerReferences": [{"kind": "ReplicaSet", "name": "web"}]},
        "spec": {"containers": [container], "nodeName": "n1"},
        "status": {"phase": "Running", "containerStatuses": [states] if status == "resized in place" else []},
    }
    pod = PodTranslator().pod(from_object(resources.PODS, written))
    types = tuple(a_type(f"t{cpu}", cpu=str(cpu), price=cpu / 20) for cpu in (2, 4, 16))
    (command,) = disrupt(fleet(types, {"n1": (types[2], "0")}, pods=(pod,))).commands
    assert launched(command) == ["t4"]


@pytest.mark.slow
def test_fifteen_thousand_waiting_pods_are_planned_although_time_is_over() -> None:
    """A run that gave up at its time-out launched nothing, and each one after it met more pods (METR/hawk 1370)."""
    types = tuple(
        a_type(f"t{cpu}", cpu=str(cpu), memory=f"{4 * cpu}Gi", pods="110", price=cpu / 20) for cpu in (4, 16, 64)
    )
    sizes = [(cpu, memory) for cpu in (200, 700, 1500, 3100) for memory in (256, 1024, 3000, 7000, 13000)]
    pods = tuple(
        a_pod(f"p{n}", cpu=f"{cpu}m", memory=f"{memory}Mi")
        for n, (cpu, memory) in zip(range(14_800), itertools.cycle(sizes), strict=False)
    )
    snapshot = a_snapshot(types=types, pods=pods, node_pools=(a_pool("default", ON_DEMAND),))
    tracemalloc.start()
    try:
        plan = schedule(snapshot, lambda: 1.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plan.unschedulable == ()
    assert sum(len(claim.pods) for claim in plan.claims) == 14_800
    assert peak < MEMORY_MAX
