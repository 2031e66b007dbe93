"""Nothing is moved by choice into a capacity reservation that ends soon."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.expiration import (
    SOON,
    EndingReservations,
    ending_reservations,
    expired,
    expires_at,
    expires_soon,
    objections,
)
from core.disruption.validation import Validation, ValidCommand
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.node_pool import NodeClass
from core.model.plan import INITIALIZED, Condition, Hold, NodeClaim
from core.model.snapshot import Node, PodDisruptionBudget, Snapshot
from core.model.values.requirements import Requirement
from core.reasons.code import Refusal, TerminationReason
from core.reasons.nodes import PodNotToDisrupt, PodOfRunningGroup, PodUnplaced
from core.reasons.pods import NeverEvicted, SparesNone
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot
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
    block_labels = {labels.RESERVATION_ID: "cr-1", labels.RESERVATION_TYPE: "capacity-block"}
    claim, node = (msgspec.structs.replace(state, labels={**state.labels, **block_labels}) for state in pair)
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
    commands = disrupt(snapshot).commands
    return [
        (command.reason, tuple(t for claim in command.replacements for t in claim.capacity_types))
        for command in commands
    ]


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
    assert isinstance(chosen.stranded, PodUnplaced)
    assert chosen.stranded.pod == "default/on-node-1"
    assert (must.stranded, [claim.capacity_types for claim in must.claims]) == (None, [(labels.RESERVED,)])


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
    reservations = EndingReservations(snapshot, ending_reservations(snapshot))
    assert reservations.avoided(snapshot) is reservations.allowed(snapshot) is snapshot
    assert DisruptionPass(snapshot).snapshot is snapshot
    middle = snapshot.catalogue.default[1]
    full = tuple(
        msgspec.structs.replace(offering, available=not offering.reservation_id) for offering in middle.offerings
    )
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
    reservations = EndingReservations(snapshot, ending_reservations(snapshot))
    closed = reservations.avoided(snapshot).catalogue
    assert closed.by_node_class["other"] == (SMALL,)
    open_ = [
        o
        for instance_type in closed.by_node_class["default"]
        for o in instance_type.offerings
        if o.reservation_id and o.available
    ]
    assert open_ == []
    assert reservations.allowed(reservations.avoided(snapshot)).catalogue is market


# When nodes expire.


HOUR = timedelta(hours=1)


def claim(name: str = "a", **changes: Any) -> NodeClaim:
    """An hour old, to be replaced at that age."""
    return NodeClaim(**{"name": name, "created_at": NOW - HOUR, "expire_after": HOUR, **changes})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("a",)),
        ({"created_at": NOW - HOUR + timedelta(minutes=6, seconds=1)}, ()),
        ({"expire_after": None}, ()),
        ({"deleted_at": NOW}, ()),
        ({"created_at": None}, ()),
    ],
)
def test_expired(changes: dict[str, Any], expected: tuple[str, ...]) -> None:
    """At its age at the latest, a tenth of it early at most, never without an age, never twice."""
    assert expired(a_snapshot(node_claims=(claim(**changes),))) == expected


def test_it_expires_at_its_moment_and_a_hold_ends_at_its_own() -> None:
    """A schedule wakes the run at that very second; a look a second early would be the last for a while."""
    moment = expires_at(claim())
    assert moment is not None
    for hold in (None, Hold(moment, "DrainBlocked", "")):
        world = a_snapshot(node_claims=(claim(hold=hold),), now=moment)
        assert expired(world) == ("a",)
        assert expired(msgspec.structs.replace(world, now=moment - timedelta(seconds=1))) == ()


@pytest.mark.parametrize(("is_forceful", "goes"), [(False, ()), (True, ("a",))])
def test_a_node_whose_drain_was_cancelled_is_left_alone_unless_its_pool_is_forceful(
    is_forceful: bool, goes: tuple[str, ...]
) -> None:
    held = claim(hold=Hold(NOW + HOUR, "DrainBlocked", ""), labels={labels.NODEPOOL: "default"})
    pool = a_pool(expires_forcefully=is_forceful)
    assert expired(a_snapshot(node_claims=(held,), node_pools=(pool,))) == goes


@pytest.mark.parametrize(
    ("seconds", "started", "expected"),
    [
        (1, 2, 12),
        (1, None, 25),
        (1, 40, 25),
        (11 * 60, 2, 12),
        (25 * 60, 20, None),
    ],
)
def test_a_node_works_for_some_minutes_before_it_goes_for_its_age(
    seconds: int, started: int | None, expected: int | None
) -> None:
    """Otherwise, an expireAfter below the time that a replacement takes would have nodes replaced all the time."""
    status = Condition("Unknown" if started is None else "True", changed_at=NOW + timedelta(minutes=started or 0))
    young = claim(created_at=NOW, expire_after=timedelta(seconds=seconds), conditions={INITIALIZED: status})
    end = expires_at(young)
    assert end is not None
    if expected is None:
        assert end <= NOW + timedelta(seconds=seconds)
    else:
        assert end == NOW + timedelta(minutes=expected)


def test_claims_of_a_command_under_way_are_left_to_it() -> None:
    """A command that waits for its replacement must not lose its node."""
    assert expired(a_snapshot(node_claims=(claim(),), marked_for_deletion=("a",))) == ()


def test_the_longest_overdue_comes_first() -> None:
    """The order depends on time, not on the input."""
    claims = (claim("c"), claim("b", created_at=NOW - 3 * HOUR), claim("a", created_at=NOW - 2 * HOUR))
    assert expired(a_snapshot(node_claims=claims)) == ("b", "a", "c")


@given(st.integers(25 * 60, 10**8), st.integers(0, 10**9))
def test_a_claim_goes_once_a_tenth_early_at_most_and_never_late(seconds: int, name: int) -> None:
    """Users rotate credentials and images by it, and pay for nodes that go early."""
    lasting = timedelta(seconds=seconds)
    late = claim(f"c-{name}", created_at=NOW - lasting, expire_after=lasting)
    early = claim(f"c-{name}", created_at=NOW - lasting + min(lasting / 10, timedelta(days=1)), expire_after=lasting)
    assert expired(a_snapshot(node_claims=(late,))) == (late.name,)
    before = msgspec.structs.replace(early, created_at=(early.created_at or NOW) + timedelta(seconds=1))
    assert expired(a_snapshot(node_claims=(before,))) == ()


def test_a_new_claim_of_the_same_name_expires_at_another_time() -> None:
    """Static replicas and claims by hand keep their names for years: the moment is that of the object, its uid."""
    month = timedelta(days=30)
    moments = {
        expires_at(claim("default-1", uid=uid, created_at=NOW, expire_after=month)) for uid in ("", "u1", "u2", "u3")
    }
    assert len(moments) == 4


def test_claims_of_one_age_do_not_expire_together() -> None:
    """Otherwise, a NodePool that grew in one burst is replaced in one burst a month later."""
    month = timedelta(days=30)
    claims = [claim(f"default-x-{n}", created_at=NOW - month, expire_after=month) for n in range(1000)]
    hours = [len(expired(a_snapshot(node_claims=tuple(claims), now=NOW - timedelta(hours=hour)))) for hour in range(25)]
    assert (hours[0], hours[24]) == (1000, 0)
    assert max(late - early for late, early in pairwise(hours)) < 80


@pytest.mark.parametrize(
    ("days", "left", "expected"),
    [
        (30, timedelta(hours=6), True),
        (30, timedelta(hours=6, seconds=1), False),
        (30, timedelta(0), True),
        (0.25, timedelta(minutes=36), True),
        (0.25, timedelta(minutes=37), False),
    ],
)
def test_a_node_expires_soon_within_six_hours_or_a_tenth_of_its_life(
    days: float, left: timedelta, expected: bool
) -> None:
    """Otherwise, pods move to a node that they leave again; or no node of a pool with a short life takes any."""
    expiring = claim(expire_after=timedelta(days=days))
    end = expires_at(expiring)
    assert end is not None
    assert expires_soon(expiring, end - left) is expected


def test_without_an_age_a_node_never_expires() -> None:
    assert expires_at(claim(expire_after=None)) is None
    assert not expires_soon(claim(created_at=None), NOW)


@pytest.mark.parametrize(
    ("grace", "asked", "pod", "why"),
    [
        (None, ("a",), {"annotations": {labels.DO_NOT_DISRUPT: "true"}}, PodNotToDisrupt("default/p")),
        (None, ("a",), {"labels": {"app": "db"}}, NeverEvicted("default/p", "never", SparesNone("0", 1))),
        (None, ("a",), {}, None),
        (None, ("other",), {"annotations": {labels.DO_NOT_DISRUPT: "true"}}, None),
        (HOUR, ("a",), {"annotations": {labels.DO_NOT_DISRUPT: "true"}}, None),
        (None, ("a",), {"annotations": {labels.DO_NOT_DISRUPT: "true"}, "node_name": "elsewhere"}, None),
    ],
)
def test_a_drain_that_a_pod_blocks_for_ever_does_not_begin(
    grace: timedelta | None, asked: tuple[str, ...], pod: dict[str, Any], why: Refusal | None
) -> None:
    """It would leave the node half empty and closed; with a terminationGracePeriod, every drain ends."""
    never = PodDisruptionBudget(
        namespace="default", name="never", selector=a_selector(app="db"), max_unavailable="0", disruptions_allowed=0
    )
    fields = {"node_name": "node-a", "phase": "Running", **pod}
    snapshot = a_snapshot(
        node_claims=(claim(node_name="node-a", termination_grace_period=grace),),
        pods=(a_pod("p", **fields), a_pod("q", node_name="node-a", phase="Running")),
        budgets=(never,),
    )
    assert objections(snapshot, asked) == ({} if why is None else {"a": why})


def test_a_running_group_keeps_an_expired_node_unless_its_drain_is_bounded() -> None:
    """Without a bound, the group ends first; with one, its end is waited for as long as the bound says."""
    claim, node = a_node_of(SMALL, "n1")
    notes = {labels.GROUP: "train", labels.GROUP_MINIMUM: "1"}
    snapshot = world((claim, node), pods=(pod_on("n1", "a", annotations=notes),))
    assert objections(snapshot, [claim.name]) == {claim.name: PodOfRunningGroup("default/a", "default/train")}
    bounded = msgspec.structs.replace(claim, termination_grace_period=timedelta(hours=1))
    assert objections(msgspec.structs.replace(snapshot, node_claims=(bounded,)), [claim.name]) == {}
