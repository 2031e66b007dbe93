"""A budget that is counted wrongly lets the program take down what it must not, or judges it wrongly."""

from __future__ import annotations

import pytest

from adapters.ports import ConflictError, EvictionBlockedError, NotFoundError, SeveralBudgetsError
from tests.unit.simulator.cluster.world import World, a_budget, a_pod, a_workload


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
