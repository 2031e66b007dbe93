"""Pods on nodes that go: those that end keep others away to the last, and those that stay there count until then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.model.node_claim import LAUNCHED
from core.model.plan import Plan
from core.model.pod import Owner, Pod, PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.scheduling.planner import Planner
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_selector, a_snapshot, a_type
from tests.unit.scheduling.reading import places, plan_of, zones

TYPE = a_type("m", cpu="4", zones=ZONES[:2])
WEB, DATA = a_selector(app="web"), a_selector(app="data")
STATEFUL, DAEMON = (Owner(kind, "s", "apps/v1", is_controller=True) for kind in ("StatefulSet", "DaemonSet"))


def apart(key: str, app: str) -> tuple[PodAffinityTerm, ...]:
    """Anti-affinity to the pods of an app."""
    return (PodAffinityTerm(key, a_selector(app=app)),)


def running(name: str, app: str, node: str = "node-1", **changes: Any) -> Pod:
    """A pod that runs on a node."""
    return a_pod(name, labels={"app": app}, node_name=node, phase="Running", **changes)


def planned(*pods: Pod) -> Plan:
    """The plan beside one node that has room for all."""
    claim, node = a_node_of(TYPE)
    return plan_of(types=(TYPE,), pods=pods, nodes=(node,), node_claims=(claim,))


def moved(*pods: Pod, **changes: Any) -> Plan:
    """The plan if `node-1` vanished; `node-2` is in the same zone."""
    pairs = (a_node_of(TYPE), a_node_of(TYPE, "node-2"))
    world = {"nodes": tuple(node for _, node in pairs), "node_claims": tuple(claim for claim, _ in pairs)}
    snapshot = a_snapshot(types=(TYPE,), pods=pods, **world, **changes)
    return Planner(snapshot).what_if(["node-1"], consolidation=False).plan


@pytest.mark.parametrize(
    ("changes", "place"),
    [({}, "new"), ({"deleted_at": NOW}, "new"), ({"phase": "Succeeded"}, "node-1"), ({"phase": "Failed"}, "node-1")],
)
def test_what_a_pod_avoids_stays_away_until_it_is_gone(changes: dict[str, Any], place: str) -> None:
    """Otherwise, a pod is planned for a node to which kube-scheduler does not bind it (Karpenter: ForPodsWithAntiAffinity)."""
    guard = msgspec.structs.replace(running("guard", "data", anti_affinity=apart(labels.HOSTNAME, "web")), **changes)
    found = places(planned(guard, a_pod("w", labels={"app": "web"})))["w"]
    assert (found == "node-1") == (place == "node-1")


@pytest.mark.parametrize(("deleted_at", "is_joined"), [(None, False), (NOW, True)])
def test_a_pod_that_ends_is_no_company_and_no_obstacle(deleted_at: Any, *, is_joined: bool) -> None:
    """Karpenter: IgnoredForTopology; a new node would be up only after the pod has gone."""
    other = running("other", "data", deleted_at=deleted_at)
    found = places(planned(other, a_pod("w", anti_affinity=apart(labels.HOSTNAME, "data"))))["w"]
    assert (found == "node-1") == is_joined


def test_a_spread_does_not_count_pods_that_end() -> None:
    """kube-scheduler and Karpenter agree: their successors would be spread away from a zone that is empty."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=WEB)
    ending = tuple(running(f"r{n}", "web", deleted_at=NOW) for n in range(2))
    assert places(planned(*ending, a_pod("w", labels={"app": "web"}, spreads=(spread,))))["w"] == "node-1"


def test_a_pod_that_ends_on_a_node_that_goes_still_holds_its_zone() -> None:
    """Its node's room is lost anyway, but the zone is not free before it is gone."""
    guard = running("guard", "data", anti_affinity=apart(labels.ZONE, "web"), deleted_at=NOW)
    assert zones(moved(guard, running("w", "web"))) == {"w": (ZONES[1],)}


def test_the_successor_of_a_statefulset_s_pod_leaves_with_it() -> None:
    """Its new place is part of the plan, so the zone that it leaves is free for the pods that it avoids."""
    guard = running("guard", "data", owners=(STATEFUL,), anti_affinity=apart(labels.ZONE, "web"), deleted_at=NOW)
    here = Requirement.one_of(labels.ZONE, ZONES[1])
    guard = msgspec.structs.replace(guard, spec=msgspec.structs.replace(guard.spec, node_selector=(here,)))
    found = moved(guard, a_pod("w", labels={"app": "web"}))
    assert zones(found) == {"guard": (ZONES[1],)}
    assert places(found)["w"] == "node-2"


def test_a_daemonset_s_pod_counts_until_its_node_ends() -> None:
    """It is there while the others find their places, and kube-scheduler counts it."""
    guard = running("guard", "data", owners=(DAEMON,), anti_affinity=apart(labels.ZONE, "web"))
    assert zones(moved(guard, running("w", "web"))) == {"w": (ZONES[1],)}
    near = (PodAffinityTerm(labels.ZONE, DATA),)
    assert places(moved(guard, running("p", "other", affinity=near)))["p"] == "node-2"


def test_pods_of_a_vanished_node_count_nowhere() -> None:
    """They are leftovers of the API until garbage collection takes them (Karpenter)."""
    claim, _ = a_node_of(TYPE)
    guard = running("guard", "data", anti_affinity=apart(labels.ZONE, "web"))
    plan = plan_of(
        types=(a_type("m", cpu="4", zones=ZONES[:1]),),
        pods=(guard, a_pod("w", labels={"app": "web"})),
        node_claims=(claim,),
    )
    assert plan.unschedulable == ()


def test_pods_of_a_claim_under_way_count_where_its_node_will_be() -> None:
    """Plans that ignored each other would need a skew that no order of binding can reach."""
    claim, _ = a_node_of(TYPE)
    claim = msgspec.structs.replace(claim, conditions={LAUNCHED: claim.conditions[LAUNCHED]})
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=WEB)
    of_web: dict[str, Any] = {"labels": {"app": "web"}, "spreads": (spread,)}
    pods = (a_pod("expected", node_name="node-1", **of_web), a_pod("w", cpu="3500m", **of_web))
    assert zones(plan_of(types=(TYPE,), pods=pods, node_claims=(claim,)))["w"] == (ZONES[1],)
