"""kube-scheduler places pods on a node that opens while a turn binds others: no rule may break between the two."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.lifecycle.binding.eligibility import SETTLES_WITHIN
from core.lifecycle.binding.open_nodes import apart_from_scheduler, opening_nodes
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.turn import DecidedBinding
from core.lifecycle.records import ClaimPhase, ClaimRecord, Moments
from core.model.node import Node
from core.model.pod import Pod
from core.model.values.taints import HELD
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.binding.cases import a_held_node, a_spread, a_term, web
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_plan, a_record

OPENED = a_held_node("opened", taints=())
SPREAD = web("s", spreads=(a_spread(),))


def bound(*pods: Pod, beside: Pod, on: Node = OPENED) -> list[str]:
    """The pods that are bound now, while this one waits for a node that was just opened."""
    bindings = [DecidedBinding("c", pod, "n") for pod in pods]
    placed = PlacedPods([on, a_held_node()], [])
    return [binding.pod.name for binding in apart_from_scheduler(bindings, [beside, *pods], [on], placed)]


def test_a_pod_waits_while_a_rule_connects_it_with_one_that_the_scheduler_may_place() -> None:
    """Each binding kept the skew by what it knew, and both together broke it."""
    lone = a_pod("p", cpu="8")
    assert bound(SPREAD, lone, beside=web("w")) == ["p"]


def test_a_rule_of_the_other_pod_counts_too() -> None:
    plain, other = web("p"), a_pod("x", cpu="8")
    assert bound(plain, other, beside=a_pod("w", anti_affinity=(a_term(),))) == ["x"]


@pytest.mark.parametrize("beside", [a_pod("w", labels={"app": "db"}), web("w", cpu="8"), web("w", is_gated=True)])
def test_a_pod_does_not_wait_for_one_that_no_rule_counts_or_that_has_no_room_there(beside: Pod) -> None:
    assert bound(web("s", cpu="8", spreads=(a_spread(),)), beside=beside) == ["s"]


def test_nothing_waits_while_no_node_opens() -> None:
    bindings = [DecidedBinding("c", SPREAD, "n")]
    assert apart_from_scheduler(bindings, [SPREAD, web("w")], [], PlacedPods([], [])) == tuple(bindings)


@pytest.mark.parametrize(
    ("ago", "node", "counts"),
    [
        (timedelta(0), OPENED, True),
        (SETTLES_WITHIN, OPENED, False),
        (timedelta(hours=-1), OPENED, False),
        (timedelta(0), a_held_node("opened", taints=(HELD,)), True),
        (timedelta(0), a_held_node("opened", taints=(), is_ready=False), False),
        (timedelta(0), a_held_node("other", taints=()), False),
    ],
)
def test_a_node_counts_as_just_opened_until_its_first_bindings_are_visible(
    ago: timedelta, node: Node, *, counts: bool
) -> None:
    """A sandbox whose clock is an hour ahead would stop all bindings for an hour.

    A node that was opened since nodes were listed is still held in the list.
    """
    record = a_record(node_name="opened", moments=Moments(opened_at=NOW - ago))
    assert opening_nodes([record, a_record()], PlacedPods([node], []), NOW) == ([node] if counts else [])


LACKS_A_DEVICE = a_record(ClaimPhase.REGISTERED, node_name="opened", plan=a_plan(resources={"amd.com/gpu": 1}))
JUST_READY = a_held_node("opened", taints=(), ready_changed_at=NOW - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("record", "node", "counts"),
    [
        (a_record(ClaimPhase.REGISTERED, node_name="opened"), OPENED, True),
        (a_record(ClaimPhase.LAUNCHED), msgspec.structs.replace(OPENED, provider_id=PROVIDER_ID), True),
        (a_record(ClaimPhase.REQUESTED), OPENED, False),
        (LACKS_A_DEVICE, OPENED, False),
        (LACKS_A_DEVICE, JUST_READY, True),
    ],
)
def test_a_node_counts_while_it_is_open_and_its_row_does_not_say_so(
    record: ClaimRecord, node: Node, *, counts: bool
) -> None:
    """Its row is stored after the node and after each nomination; a node that is never held is open from ready on.

    A node that waits for its device plugin is open for minutes, in which no binding would be written.
    """
    assert opening_nodes([record], PlacedPods([node], []), NOW) == ([node] if counts else [])


@pytest.mark.parametrize(
    ("is_bound", "ago", "counts"),
    [(True, SETTLES_WITHIN, True), (True, timedelta(seconds=1), False), (False, SETTLES_WITHIN, False)],
)
def test_a_held_node_counts_once_it_is_due_to_open(ago: timedelta, *, is_bound: bool, counts: bool) -> None:
    """Another run may be opening it, two seconds after its last binding: earlier, bursts would take seconds longer."""
    moments = Moments(bound_at=NOW - ago)
    record = a_record(ClaimPhase.REGISTERED, node_name="n", is_bound=is_bound, moments=moments)
    node = a_held_node()
    assert opening_nodes([record], PlacedPods([node], []), NOW) == ([node] if counts else [])


def test_one_opening_node_with_room_is_enough() -> None:
    """kube-scheduler takes whichever has room."""
    full = a_held_node("full", taints=(), allocatable={"cpu": 0, "memory": 0, "pods": 0})
    bindings = [DecidedBinding("c", SPREAD, "n")]
    placed = PlacedPods([full, OPENED, a_held_node()], [])
    for opening in ([full, OPENED], [OPENED, full]):
        assert apart_from_scheduler(bindings, [web("w"), SPREAD], opening, placed) == ()
    assert apart_from_scheduler(bindings, [web("w"), SPREAD], [full], placed) == tuple(bindings)


def test_a_held_node_whose_pods_were_bound_at_no_known_time_is_due_to_open() -> None:
    """An adopted or restored row has none."""
    record = a_record(ClaimPhase.REGISTERED, node_name="n", is_bound=True, moments=Moments())
    node = a_held_node()
    assert opening_nodes([record], PlacedPods([node], []), NOW) == [node]
