"""Nothing is moved by choice into a capacity reservation that ends soon."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from core import labels
from core.disruption import disrupt
from core.disruption.conditions.ending_reservations import EndingReservations, ending_reservations
from core.disruption.conditions.expiration import SOON
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.validation.validation import Validation, ValidCommand
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node import Node
from core.model.node_claim import NodeClaim
from core.model.node_pool import NodeClass
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.reasons.termination import TerminationReason
from tests.builders import NOW, ZONES, a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import KARPENTER, LARGE, MIDDLE, OPEN, SMALL, drifted, pod_on, world

FAR = NOW + SOON + timedelta(seconds=1)
NEAR = NOW + SOON
EITHER = Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED, labels.SPOT)
ONLY_RESERVED = Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED)


def reserved(found: InstanceType) -> InstanceType:
    """The type with two free places in the block cr-1."""
    place = Offering(
        found.name, ZONES[0], labels.RESERVED, 1,
        reservation_id="cr-1", reservation_capacity=2, reservation_type="capacity-block",
    )  # fmt: skip
    return msgspec.structs.replace(found, offerings=(*found.offerings, place))


def in_block(pair: tuple[NodeClaim, Node]) -> tuple[NodeClaim, Node]:
    """The node, in the block cr-1."""
    own = {labels.RESERVATION_ID: "cr-1", labels.RESERVATION_TYPE: "capacity-block"}
    claim, node = (msgspec.structs.replace(one, labels={**one.labels, **own}) for one in pair)
    return claim, node


def a_world(
    leaves: datetime, *pairs: tuple[NodeClaim, Node], admits: Requirement = EITHER, **changes: object
) -> Snapshot:
    """Nodes of one NodePool that may use the block, which its nodes leave at this moment."""
    return msgspec.structs.replace(
        world(*pairs, node_pools=(a_pool("default", admits, disruption=OPEN),)),
        catalogue=Catalogue((SMALL, reserved(MIDDLE), LARGE)),
        node_classes=(NodeClass(name="default", reservation_ends={"cr-1": leaves}),),
        **changes,
    )


def spot(name: str = "node-1") -> tuple[NodeClaim, Node]:
    return a_node_of(MIDDLE, name, capacity_type=labels.SPOT)


def reasons(snapshot: Snapshot) -> list[tuple[str, tuple[str, ...]]]:
    """Each command's reason and the capacity types that it launches."""
    found = disrupt(snapshot).commands
    return [(one.reason, tuple(t for claim in one.replacements for t in claim.capacity_types)) for one in found]


def test_no_node_is_launched_for_a_saving_that_ends_soon() -> None:
    """The pods of a spot node were moved to a block for the six minutes until its nodes had to leave it."""
    pods = (pod_on("node-1"),)
    assert reasons(a_world(FAR, spot(), pods=pods)) == [(TerminationReason.UNDERUTILIZED, ("reserved",))]
    assert (TerminationReason.UNDERUTILIZED, ("reserved",)) not in reasons(a_world(NEAR, spot(), pods=pods))


def test_no_pod_is_moved_to_a_node_that_leaves_its_block_soon() -> None:
    block = in_block(a_node_of(MIDDLE, "block", capacity_type=labels.RESERVED))
    pods = (pod_on("node-1"), pod_on("block"))
    for leaves, targets in ((FAR, {"block"}), (NEAR, set())):
        plan = disrupt(a_world(leaves, spot(), block, pods=pods))
        assert {move.to for command in plan.commands for move in command.moves} & {"block"} == targets


def test_pods_are_not_moved_off_a_block_early() -> None:
    """What runs there is paid for until the end; unlike a node that expires, its moves do not come for nothing."""
    block = in_block(a_node_of(MIDDLE, "block", capacity_type=labels.RESERVED))
    pods = (pod_on("node-1"), pod_on("block"))
    gone = {name for command in disrupt(a_world(NEAR, spot(), block, pods=pods)).commands for name in command.nodes}
    assert "block" not in gone


def test_a_node_that_must_go_may_use_the_block_if_nothing_else_is_allowed() -> None:
    """For six hours, drifted and broken nodes of a NodePool with reserved capacity only would stay."""
    pair = drifted(in_block(a_node_of(MIDDLE, capacity_type=labels.RESERVED)))
    snapshot = a_world(NEAR, pair, admits=ONLY_RESERVED, pods=(pod_on("node-1"),))
    assert reasons(snapshot) == [(TerminationReason.DRIFTED, ("reserved",))]


def test_such_a_command_holds_when_it_is_checked_again() -> None:
    pair = drifted(in_block(a_node_of(MIDDLE, capacity_type=labels.RESERVED)))
    snapshot = a_world(NEAR, pair, admits=ONLY_RESERVED, pods=(pod_on("node-1"),))
    (command,) = disrupt(snapshot).commands
    assert isinstance(Validation([command], snapshot).check(command), ValidCommand)


def test_a_move_by_choice_is_stranded_where_only_the_block_would_hold_its_pods() -> None:
    snapshot = a_world(NEAR, spot(), pods=(pod_on("node-1"),), admits=ONLY_RESERVED)
    this_pass = DisruptionPass(snapshot)
    chosen, must = (
        this_pass.simulate(this_pass.survey.candidates, consolidation=by_choice) for by_choice in (True, False)
    )
    assert "pod default/on-node-1 would find no place" in chosen.stranded
    assert (must.stranded, [claim.capacity_types for claim in must.claims]) == ("", [(labels.RESERVED,)])


def test_karpenters_own_moves_do_not_look_at_ends() -> None:
    snapshot = a_world(NEAR, spot(), pods=(pod_on("node-1"),), options=KARPENTER)
    assert DisruptionPass(snapshot).snapshot is snapshot


def test_a_bound_on_all_decisions_counts_on_the_block() -> None:
    """A node that goes at any cost may be replaced in it; the bound would be above what that costs."""
    snapshot = a_world(NEAR, drifted(spot()), pods=(pod_on("node-1"),), admits=ONLY_RESERVED)
    plan = disrupt(snapshot)
    assert plan.cost.lower_bound is not None
    assert plan.cost.lower_bound <= plan.cost.after


def test_a_market_without_such_reservations_stays_the_very_same() -> None:
    """Caches go by identity, and every pass begins with this."""
    snapshot = a_world(FAR, spot())
    found = EndingReservations(snapshot, ending_reservations(snapshot))
    assert found.avoided(snapshot) is found.allowed(snapshot) is snapshot
    assert DisruptionPass(snapshot).snapshot is snapshot
    middle = snapshot.catalogue.default[1]
    full = tuple(msgspec.structs.replace(one, available=not one.reservation_id) for one in middle.offerings)
    taken = Catalogue((SMALL, msgspec.structs.replace(middle, offerings=full), LARGE))
    assert not EndingReservations(msgspec.structs.replace(snapshot, catalogue=taken), frozenset({"cr-1"})).take_nodes
    elsewhere = msgspec.structs.replace(
        snapshot, node_classes=(NodeClass(name="default", reservation_ends={"cr-2": NEAR}),)
    )
    assert DisruptionPass(elsewhere).snapshot is elsewhere, "no type is offered in the reservation that ends"


def test_types_of_one_class_are_closed_like_those_of_all() -> None:
    snapshot = a_world(NEAR, spot())
    market = Catalogue((), {"default": snapshot.catalogue.default, "other": (SMALL,)})
    snapshot = msgspec.structs.replace(snapshot, catalogue=market)
    found = EndingReservations(snapshot, ending_reservations(snapshot))
    closed = found.avoided(snapshot).catalogue
    assert closed.by_node_class["other"] == (SMALL,)
    open_ = [o for one in closed.by_node_class["default"] for o in one.offerings if o.reservation_id and o.available]
    assert open_ == []
    assert found.allowed(found.avoided(snapshot)).catalogue is market
