"""`status.nominatedNodeName`, as kube-scheduler 1.35 treats what others write there: else the simulator flatters us."""

from __future__ import annotations

from core.api.objects import JsonObject
from core.manifests.wire import resources
from lambdas.controllers.audit_log import reason_to_wake
from tests.unit.simulator.cluster.world import World, a_pod

CLOSED = [{"key": "closed", "effect": "NoSchedule"}]


def nominate(world: World, pod: str, node: str) -> None:
    """As a function does."""
    body = {"status": {"nominatedNodeName": node}}
    world.cluster.api.patch(resources.PODS, pod, body, namespace="default", subresource="status")


def nominated(world: World, pod: str) -> str | None:
    named: str | None = world.pod(pod)["status"].get("nominatedNodeName")
    return named


def wait_for_nodes(world: World, *pods: JsonObject) -> None:
    """Pods that wait while both nodes, ready, are closed."""
    world.join("n1", "n2", cpu="4", taints=CLOSED)
    world.cluster.apply(list(pods))
    world.run(20)


def open_nodes(world: World, *names: str) -> None:
    for name in names:
        world.patch_node(name, {"taints": []})
    world.run(5)


def test_the_nominated_node_is_tried_first(world: World) -> None:
    wait_for_nodes(world, a_pod("p"))
    nominate(world, "p", "n2")
    open_nodes(world, "n1", "n2")
    assert (world.where(), nominated(world, "p")) == ({"p": "n2"}, None)


def test_room_is_kept_from_pods_of_no_higher_priority(world: World) -> None:
    wait_for_nodes(world, a_pod("early", cpu="3"), a_pod("late", cpu="3"))
    nominate(world, "late", "n1")
    open_nodes(world, "n1")
    assert world.where() == {"early": "", "late": "n1"}


def test_a_pod_of_higher_priority_takes_the_room(world: World) -> None:
    world.cluster.apply([{"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}])
    wait_for_nodes(world, a_pod("p", cpu="3"), a_pod("urgent", cpu="3", priorityClassName="high"))
    nominate(world, "p", "n1")
    open_nodes(world, "n1")
    assert world.where() == {"p": "", "urgent": "n1"}


def test_a_vain_attempt_wipes_the_nomination_off(world: World) -> None:
    wait_for_nodes(world, a_pod("p", cpu="3"), a_pod("small"))
    nominate(world, "p", "n2")
    world.cluster.api.patch(resources.NODES, "n1", {"metadata": {"labels": {"changed": "yes"}}})
    world.run(5)
    assert nominated(world, "p") is None


def test_a_pod_that_never_preempts_keeps_it(world: World) -> None:
    """The scheduler wipes it off where preemption finds nothing, and for such a pod it does not look."""
    wait_for_nodes(world, a_pod("p", cpu="3", preemptionPolicy="Never"))
    nominate(world, "p", "n2")
    world.cluster.api.patch(resources.NODES, "n1", {"metadata": {"labels": {"changed": "yes"}}})
    world.run(5)
    assert nominated(world, "p") == "n2"


def test_our_own_nomination_is_in_the_audit_log_and_wakes_nobody(world: World) -> None:
    """The server answers with the whole pod, which is unschedulable still."""
    heard: list[JsonObject] = []
    wait_for_nodes(world, a_pod("p"))
    world.cluster.on_audit_event(heard.append)
    nominate(world, "p", "n2")
    (event,) = heard
    assert event["objectRef"]["subresource"] == "status"
    assert "Unschedulable" in str(event["responseObject"])
    assert reason_to_wake(event) == ""
