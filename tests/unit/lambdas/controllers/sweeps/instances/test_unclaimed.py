"""Instances with our tag that no claim has: a claim waits for them, they only lack a name, or they are strangers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.observation.cluster_state import ClusterState
from adapters.ports import Instance
from adapters.store import UnreadableRow
from core import labels
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.launching.shared_launch import launch_name
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.node import Node
from lambdas.controllers.sweeps.instances.unclaimed import UnclaimedInstances, untracked
from tests.builders import NOW, a_snapshot
from tests.unit.lifecycle.records_for_tests import a_record

YOUNG = timedelta(minutes=1)


def an_instance(number: int, claim: str, *, age: timedelta = YOUNG, state: str = "running", **tags: str) -> Instance:
    own = {labels.CLAIM: claim, labels.NODEPOOL: "default"}
    return Instance(
        instance_id=f"i-{number}",
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="spot",
        state=state,
        launched_at=NOW - age,
        tags={**own, **tags},
    )


def unnamed(number: int, launch: str) -> Instance:
    """An instance of a shared launch that has its launch's name."""
    return an_instance(number, launch, **{labels.LAUNCH: launch})


def a_claim(name: str, **changes: Any) -> ClaimRecord:
    return msgspec.structs.replace(a_record(**changes), name=name)


def waiting(name: str, **changes: Any) -> ClaimRecord:
    """A claim whose launch got no answer."""
    return a_claim(name, phase=ClaimPhase.REQUESTED, attempts=1, **changes)


def found_in(
    *instances: Instance,
    claims: tuple[ClaimRecord, ...] = (),
    nodes: tuple[Node, ...] = (),
    age: timedelta = YOUNG,
    unreadable: tuple[UnreadableRow, ...] = (),
) -> UnclaimedInstances:
    view = ClusterState(
        snapshot=a_snapshot(nodes=nodes),
        claims={claim.name: claim for claim in claims},
        commands=(),
        node_pools={"default": {}},
        node_classes={},
        unreadable_rows=unreadable,
    )
    return untracked(instances, view, NOW, min_age=age)


def a_node(name: str, instance: Instance) -> Node:
    return Node(name=name, provider_id=instance.provider_id)


def problems(found: UnclaimedInstances) -> list[str]:
    return [one.problem for one in found.unclaimed]


def test_the_instance_of_a_known_claim_is_none_of_them() -> None:
    found = found_in(an_instance(1, "c"), claims=(a_claim("c"),))
    assert (found.awaited, found.unnamed, found.unclaimed, found.tagged) == ((), (), (), 1)


@pytest.mark.parametrize(
    "instance",
    [
        an_instance(7, "x", state="terminated"),
        an_instance(7, "x", state="shutting-down"),
        msgspec.structs.replace(an_instance(7, "x"), tags={}),
    ],
    ids=["terminated", "ending", "without our tag"],
)
def test_what_is_gone_or_not_ours_is_left_out(instance: Instance) -> None:
    found = found_in(instance)
    assert (found.unclaimed, found.tagged) == ((), 0)


def test_the_instance_of_a_claim_that_cannot_be_read_is_left_out() -> None:
    """Its claim exists, so a second one would be built, or the instance ended as unknown, for one mistyped row."""
    row = UnreadableRow("cluster#claims#3", "x", "row x cannot be read")
    old = timedelta(days=1)
    assert found_in(an_instance(7, "x", age=old), unreadable=(row,)).unclaimed == ()
    assert len(found_in(an_instance(7, "y", age=old), unreadable=(row,)).unclaimed) == 1
    command = msgspec.structs.replace(row, partition="cluster#commands")
    assert len(found_in(an_instance(7, "x", age=old), unreadable=(command,)).unclaimed) == 1


@pytest.mark.parametrize(
    ("names", "unreadable", "is_left_out"),
    [
        (("default-a-0",), "default-a-1", True),
        ((), "default-a-1", True),
        (("default-a-0",), "default-b-1", False),
        (("default-a-0", "default-a-1"), "default-a-2", False),
        ((), "other-a-1", False),
    ],
    ids=[
        "may be its claim",
        "no claim is left",
        "of another plan",
        "all of the launch are read",
        "of another NodePool",
    ],
)
def test_an_unnamed_instance_is_left_out_if_the_claim_that_cannot_be_read_may_share_its_launch(
    names: tuple[str, ...], unreadable: str, is_left_out: bool
) -> None:
    """One mistyped row must not keep the instances of all launches: they cost money, and their pods wait for them."""
    readable = tuple(a_claim(name, token="t", shares=2, share=index) for index, name in enumerate(names))
    row = UnreadableRow("cluster#claims#3", unreadable, f"row {unreadable} cannot be read")
    found = found_in(unnamed(7, "launch-t"), claims=readable, unreadable=(row,))
    assert (found.unclaimed == ()) is is_left_out


class TestAStranger:
    """Its row is lost, or it never had one."""

    def test_can_have_its_claim_rebuilt(self) -> None:
        instance = an_instance(7, "x")
        found = found_in(instance)
        assert [(one.instance, one.node, one.problem) for one in found.unclaimed] == [(instance, None, "")]
        assert found.rebuildable == found.unclaimed

    def test_comes_with_its_node(self) -> None:
        instance = an_instance(7, "x")
        found = found_in(instance, nodes=(a_node("n", instance), a_node("m", an_instance(8, "y"))))
        assert [one.node.name for one in found.unclaimed if one.node is not None] == ["n"]

    def test_with_two_nodes_comes_without_any(self) -> None:
        """One of them is stale, and which is not known."""
        instance = an_instance(7, "x")
        found = found_in(instance, nodes=(a_node("n", instance), a_node("m", instance)))
        assert [one.node for one in found.unclaimed] == [None]

    @pytest.mark.parametrize(("age", "count"), [(timedelta(seconds=59), 0), (YOUNG, 1)])
    def test_that_was_launched_just_now_may_be_stored_in_a_moment(self, age: timedelta, count: int) -> None:
        assert len(found_in(an_instance(7, "x", age=age)).unclaimed) == count

    def test_whose_name_another_instance_has_is_one_too_many(self) -> None:
        found = found_in(an_instance(7, "c"), claims=(a_claim("c"),))
        assert problems(found) == ["claim c has another instance, i-1"]
        assert found.rebuildable == ()

    @pytest.mark.parametrize(
        ("tags", "problem"),
        [
            ({labels.NODEPOOL: "gone"}, "its NodePool gone does not exist"),
            ({labels.NODEPOOL: ""}, "its NodePool (none) does not exist"),
            ({labels.NODEPOOL: "", labels.MADE_BY_HAND: "uid"}, ""),
        ],
    )
    def test_needs_its_node_pool_unless_its_node_claim_was_made_by_hand(
        self, tags: dict[str, str], problem: str
    ) -> None:
        assert problems(found_in(an_instance(7, "x", **tags))) == [problem]

    @pytest.mark.parametrize(("age", "is_late"), [(REGISTRATION_TIMEOUT, True), (REGISTRATION_TIMEOUT - YOUNG, False)])
    def test_that_should_have_joined_by_now_and_has_not_is_not_rebuilt(self, age: timedelta, *, is_late: bool) -> None:
        """Its claim would be removed at once; where nodes cannot be listed, that would be the whole fleet."""
        instance = an_instance(7, "x", age=age)
        assert bool(problems(found_in(instance))[0]) is is_late
        assert problems(found_in(instance, nodes=(a_node("n", instance),))) == [""]

    def test_of_several_the_first_id_comes_first(self) -> None:
        found = found_in(an_instance(9, "z"), an_instance(7, "x"), an_instance(8, "y"))
        assert [one.instance.instance_id for one in found.unclaimed] == ["i-7", "i-8", "i-9"]
        assert found.tagged == 3


class TestAnAwaitedInstance:
    """EC2's answer to its launch was lost."""

    def test_is_its_claims(self) -> None:
        instance = an_instance(7, "c")
        found = found_in(instance, claims=(waiting("c"),))
        assert (found.awaited, found.unclaimed) == (((instance, "c"),), ())

    def test_of_a_shared_launch_goes_to_its_claims_in_turn(self) -> None:
        claims = [waiting(name, shares=3, share=share) for name, share in (("a", 1), ("b", 0), ("c", 2))]
        launch = launch_name(claims[0])
        instances = [unnamed(number, launch) for number in (9, 7, 8)]
        found = found_in(*instances, claims=tuple(claims))
        assert [(instance.instance_id, name) for instance, name in found.awaited] == [
            ("i-7", "b"),
            ("i-8", "a"),
            ("i-9", "c"),
        ]

    def test_beyond_the_claims_of_its_launch_is_a_stranger(self) -> None:
        claim = waiting("a", shares=2, share=0)
        launch = launch_name(claim)
        found = found_in(unnamed(7, launch), unnamed(8, launch), claims=(claim,))
        assert [instance.instance_id for instance, _ in found.awaited] == ["i-7"]
        assert [one.instance.instance_id for one in found.unclaimed] == ["i-8"]

    def test_that_was_named_already_goes_to_the_claim_of_that_name(self) -> None:
        """The run that named it died before it stored the row."""
        claim = waiting("a", shares=2, share=1)
        named = an_instance(7, "a", **{labels.LAUNCH: launch_name(claim)})
        found = found_in(named, claims=(claim,))
        assert [(instance.instance_id, name) for instance, name in found.awaited] == [("i-7", "a")]


def test_an_instance_of_a_known_claim_that_has_its_launchs_name_is_to_be_named() -> None:
    record = a_claim("c", shares=2)
    found = found_in(unnamed(1, launch_name(record)), claims=(record,))
    assert [(instance.instance_id, name) for instance, name in found.unnamed] == [("i-1", "c")]
    named = an_instance(1, "c", **{labels.LAUNCH: launch_name(record)})
    assert found_in(named, claims=(record,)).unnamed == ()
