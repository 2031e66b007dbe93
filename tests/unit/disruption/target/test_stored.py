"""A stored target is read back unchanged, minus the part that its commands have carried out."""

from __future__ import annotations

import zlib

import msgspec

from core.disruption import disrupt
from core.disruption.target.stored import PodKinds, after_commands, decode, digest, encode
from core.model.plan import Command, Move, ObjectRef, PlannedClaim, StoredDrain, StoredNewNode, StoredSlots
from tests.builders import a_stored_target
from tests.unit.disruption.nodes_for_tests import pod_on
from tests.unit.disruption.target.fleets_for_tests import half_full

TARGET = a_stored_target(
    StoredDrain("a", 10, 3),
    StoredDrain("b", 20, 5),
    settings="s",
    kept_price=7,
    new_price=4,
    slots=(StoredSlots("k", "c", 2),),
    new_nodes=(StoredNewNode(name="default-0", pods={"k": 3}),),
)


def test_a_target_round_trips() -> None:
    assert decode(encode(TARGET)) == TARGET
    assert digest(TARGET) == digest(msgspec.structs.replace(TARGET))
    assert digest(TARGET) != digest(msgspec.structs.replace(TARGET, new_price=5))
    assert TARGET.saving == 26


def test_an_unreadable_row_is_no_target() -> None:
    assert decode(b"nonsense") is None
    assert decode(zlib.compress(b'{"version": 1}')) is None
    whole = msgspec.json.decode(zlib.decompress(encode(TARGET)))
    assert decode(zlib.compress(msgspec.json.encode(whole | {"version": 0}))) is None


def test_pods_of_a_workload_with_equal_requests_are_of_one_kind() -> None:
    kinds = PodKinds()
    assert kinds.of(pod_on("a", "p1")) == kinds.of(pod_on("b", "p2"))
    assert kinds.of(pod_on("a", "p1")) != kinds.of(pod_on("a", "p3", cpu="700m"))


def test_started_commands_are_no_longer_part_of_the_target() -> None:
    snapshot = half_full(8, at_once=2)
    plan = disrupt(snapshot)
    assert plan.target is not None
    rest = after_commands(plan.target, plan.commands, snapshot.pods, {})
    assert rest is not None
    gone = {node for command in plan.commands for node in command.nodes}
    assert {drain.node for drain in plan.target.drains} - {drain.node for drain in rest.drains} == gone
    moved = sum(len(command.moves) for command in plan.commands)
    assert sum(slot.pods for slot in rest.slots) == sum(slot.pods for slot in plan.target.slots) - moved
    assert after_commands(plan.target, (), snapshot.pods, {}) == plan.target


def test_a_launched_node_becomes_a_place_for_later_waves() -> None:
    new = PlannedClaim(name="default-0", node_pool="default", node_class=ObjectRef("", "", "default"), price=2)
    command = Command(reason="Underutilized", method="repack", nodes=("a",), claims=("a",), replacements=(new,))
    rest = after_commands(TARGET, [command], (), {"default-0": "default-x7"})
    assert rest is not None
    assert StoredSlots("k", "default-x7", 3) in rest.slots
    assert rest.new_nodes == ()
    assert (rest.kept_price, rest.drained_price, rest.new_price) == (7 + 2, 20, 4 - 2)
    assert after_commands(TARGET, [msgspec.structs.replace(command, nodes=("a", "b"))], (), {}) is None


def test_places_that_pods_have_taken_are_no_longer_part_of_the_target() -> None:
    """Neither a slot of no pods nor one of fewer: a later wave would count it as room, or as owed."""
    pods = tuple(pod_on("a", f"p{number}") for number in range(4))
    kind = PodKinds().of(pods[0])
    target = a_stored_target(
        StoredDrain("a", 1, 1),
        StoredDrain("b", 1, 1),
        slots=(StoredSlots(kind, "c", 2), StoredSlots(kind, "d", 2)),
        new_nodes=(StoredNewNode(name="new-0", pods={kind: 1, "other": 2}),),
    )
    places = ("c", "c", "d", "new-0")
    moves = tuple(Move(pod.key, to) for pod, to in zip(pods, places, strict=True))
    command = Command(reason="Underutilized", method="repack", nodes=("a",), claims=("a",), moves=moves)
    rest = after_commands(target, [command], pods, {})
    assert rest is not None
    assert rest.slots == (StoredSlots(kind, "d", 1),)
    assert rest.new_nodes == (StoredNewNode(name="new-0", pods={"other": 2}),)
