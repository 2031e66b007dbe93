"""Drifted nodes of a full capacity reservation go before their replacements come."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import disrupt, methods
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.methods import objection
from core.model.catalogue import Catalogue, Offering
from core.model.plan import INITIALIZED, Command, NodeClaim
from core.model.snapshot import Node, Options, Snapshot
from core.model.values.requirements import Requirement
from core.reasons.code import Refusal, TerminationReason
from core.reasons.nodes import TOGETHER_ONLY, NodeReason
from core.reasons.runs import NOT_RESERVED, PlaceWanted, PoolChanges, ReservationNotFull
from tests.builders import ZONES, a_node_of, a_pod, a_pool
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    MIDDLE,
    OPEN,
    SMALL,
    TYPES,
    blocked,
    checked,
    drifted,
    pod_on,
    world,
)

ONLY_RESERVED = Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED)


def reserved_node(name: str) -> tuple[NodeClaim, Node]:
    claim, node = a_node_of(MIDDLE, name=name, capacity_type=labels.RESERVED)
    reservation_labels = {labels.RESERVATION_ID: "cr-1"}
    return (
        msgspec.structs.replace(claim, labels={**claim.labels, **reservation_labels}),
        msgspec.structs.replace(node, labels={**node.labels, **reservation_labels}),
    )


def a_full_reservation(**changes: Any) -> Catalogue:
    offering = Offering(
        MIDDLE.name, ZONES[0], labels.RESERVED, 1, **{"available": False, "reservation_id": "cr-1", **changes}
    )
    middle = msgspec.structs.replace(MIDDLE, offerings=(*MIDDLE.offerings, offering))
    return Catalogue(
        default=tuple(middle if instance_type.name == middle.name else instance_type for instance_type in TYPES)
    )


def a_fleet(*nodes: tuple[NodeClaim, Node], **changes: Any) -> Snapshot:
    nodes = nodes or (drifted(reserved_node("a")), drifted(reserved_node("b")))
    fields: dict[str, Any] = {
        "pods": tuple(pod_on(node.name, cpu="3") for _, node in nodes),
        "node_pools": (a_pool("default", ONLY_RESERVED, disruption=OPEN),),
        "catalogue": a_full_reservation(),
        **changes,
    }
    return world(*nodes, **fields)


@pytest.mark.parametrize("options", [Options(), KARPENTER])
def test_one_node_goes_and_the_next_waits_for_its_replacement(options: Options) -> None:
    """Otherwise, both stay drifted for ever; or both go at once, although one would do."""
    snapshot = a_fleet(options=options)
    (command,) = disrupt(snapshot).commands
    assert command == Command(
        reason=TerminationReason.DRIFTED,
        method="terminate-first",
        nodes=("a",),
        claims=("default-a",),
        savings=DisruptionPass(snapshot).survey.candidates[0].price,
    )
    assert command.savings > 0
    assert checked(command, snapshot) == command


@pytest.mark.parametrize(
    "snapshot",
    [
        a_fleet(catalogue=a_full_reservation(reservation_type="capacity-block")),
        a_fleet(catalogue=Catalogue(default=TYPES)),
        a_fleet(drifted(a_node_of(SMALL, name="a")), pods=(pod_on("a"),)),
        a_fleet(pods=(pod_on("a", cpu="3"), pod_on("b", cpu="3"), a_pod("waits", cpu="3"))),
    ],
    ids=["block", "gone", "on-demand", "a pod waits"],
)
def test_it_stays_where_the_freed_place_would_not_hold_its_pods(snapshot: Snapshot) -> None:
    """They would lose their node for nothing."""
    plan = disrupt(snapshot)
    assert plan.commands == ()
    assert blocked(plan)["a"] == NodeReason.PODS_UNSCHEDULABLE


def test_it_waits_until_all_others_of_the_pool_work() -> None:
    """A place that was freed a minute ago is launched into first; the same holds when the command is checked again."""
    claim, node = reserved_node("b")
    booting = msgspec.structs.replace(claim, conditions={k: c for k, c in claim.conditions.items() if k != INITIALIZED})
    late = a_fleet(drifted(reserved_node("a")), (booting, node))
    assert disrupt(late).commands == ()
    (command,) = disrupt(a_fleet()).commands
    assert isinstance(checked(command, late), Refusal)


def objection_to(snapshot: Snapshot) -> Refusal | None:
    candidate = DisruptionPass(snapshot).survey.candidates[0]
    return objection(candidate, snapshot)


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (a_fleet(), None),
        (a_fleet(catalogue=Catalogue(TYPES, {"default": a_full_reservation().default})), None),
        (a_fleet(a_node_of(MIDDLE, name="a")), NOT_RESERVED),
        (a_fleet(catalogue=a_full_reservation(available=True, reservation_capacity=1)), ReservationNotFull("cr-1")),
        (a_fleet(pods=(pod_on("a", cpu="3"), pod_on("b", cpu="3"), a_pod("w", cpu="3"))), PlaceWanted("cr-1")),
        (msgspec.structs.replace(a_fleet(), marked_for_deletion=("default-b",)), PoolChanges("default")),
    ],
)
def test_an_objection_is_named(snapshot: Snapshot, expected: Refusal | None) -> None:
    """The refusal of a command that no longer holds says it."""
    assert objection_to(snapshot) == expected


def test_a_node_that_stays_for_another_reason_does_not_go_first() -> None:
    """Its pods may find a place once that reason is gone, without waiting."""
    this_pass = DisruptionPass(a_fleet())
    methods.find_drifted(this_pass)
    assert [command.nodes for command in methods.find_terminate_first(this_pass)] == [("a",)]
    this_pass.refusals = dict.fromkeys(this_pass.refusals, TOGETHER_ONLY)
    assert methods.find_terminate_first(this_pass) == []


def test_no_node_goes_first_once_the_time_of_the_pass_is_over() -> None:
    """Its what-if was cut off: nobody knows whether its pods have a place."""
    elapsed = [0.0]
    this_pass = DisruptionPass(a_fleet(), None, lambda: elapsed[0])
    methods.find_drifted(this_pass)
    elapsed[0] = 1.0
    assert methods.find_terminate_first(this_pass) == []


def test_no_second_node_goes_first_in_a_pass_in_which_one_goes_for_drift() -> None:
    this_pass = DisruptionPass(a_fleet())
    methods.find_drifted(this_pass)
    (first,) = methods.find_terminate_first(this_pass)
    this_pass.commands = [first]
    assert methods.find_terminate_first(this_pass) == []
    this_pass.commands = [msgspec.structs.replace(first, reason="Empty")]
    assert [command.nodes for command in methods.find_terminate_first(this_pass)] == [("a",)]


def test_a_type_that_only_the_reservation_offers_is_launched_into_again() -> None:
    """A block of accelerators may have no other offering in the region."""
    full = a_full_reservation()
    alone = tuple(
        msgspec.structs.replace(instance_type, offerings=instance_type.offerings[-1:])
        if instance_type.name == MIDDLE.name
        else instance_type
        for instance_type in full.default
    )
    (offering,) = next(instance_type.offerings for instance_type in alone if instance_type.name == MIDDLE.name)
    assert offering.reservation_id == "cr-1"
    assert objection_to(a_fleet(catalogue=Catalogue(default=alone))) is None


def test_nodes_that_have_not_drifted_or_stay_for_another_reason_are_passed_over() -> None:
    this_pass = DisruptionPass(a_fleet(reserved_node("a"), drifted(reserved_node("b")), drifted(reserved_node("c"))))
    methods.find_drifted(this_pass)
    assert [command.nodes for command in methods.find_terminate_first(this_pass)] == [("b",)]
    this_pass.refusals["b"] = TOGETHER_ONLY
    assert [command.nodes for command in methods.find_terminate_first(this_pass)] == [("c",)]


@pytest.mark.parametrize(("tries", "found"), [(1, []), (2, ["b"])])
def test_a_pass_tries_so_many_nodes(tries: int, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may plan twice for the whole cluster."""
    monkeypatch.setattr(methods, "TRIES", tries)
    monkeypatch.setattr(methods, "objection", lambda candidate, _: NOT_RESERVED if candidate.name == "a" else None)
    this_pass = DisruptionPass(a_fleet())
    methods.find_drifted(this_pass)
    commands = methods.find_terminate_first(this_pass)
    assert isinstance(commands, list)
    assert [node for command in commands for node in command.nodes] == found


def test_a_reservation_with_one_free_place_is_not_full() -> None:
    """Its types share its places; EC2 says so of each."""
    full = a_full_reservation().default
    free = msgspec.structs.replace(full[-1].offerings[0], reservation_id="cr-1", reservation_capacity=1)
    types = (*full[:-1], msgspec.structs.replace(full[-1], offerings=(*full[-1].offerings, free)))
    assert objection_to(a_fleet(catalogue=Catalogue(default=types))) == ReservationNotFull("cr-1")
