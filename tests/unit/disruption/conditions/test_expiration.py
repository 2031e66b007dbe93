"""When nodes expire."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import labels
from core.disruption.conditions.expiration import expired, expires_at, expires_soon, objections
from core.model.node_claim import Hold, NodeClaim
from core.model.policy import PodDisruptionBudget
from tests.builders import NOW, a_pod, a_pool, a_selector, a_snapshot

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


def test_claims_of_a_command_under_way_are_left_to_it() -> None:
    """A command that waits for its replacement must not lose its node."""
    assert expired(a_snapshot(node_claims=(claim(),), marked_for_deletion=("a",))) == ()


def test_the_longest_overdue_comes_first() -> None:
    """The order depends on time, not on the input."""
    claims = (claim("c"), claim("b", created_at=NOW - 3 * HOUR), claim("a", created_at=NOW - 2 * HOUR))
    assert expired(a_snapshot(node_claims=claims)) == ("b", "a", "c")


@settings(deadline=None)
@given(st.integers(60, 10**8), st.integers(0, 10**9))
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
    found = claim(expire_after=timedelta(days=days))
    end = expires_at(found)
    assert end is not None
    assert expires_soon(found, end - left) is expected


def test_without_an_age_a_node_never_expires() -> None:
    assert expires_at(claim(expire_after=None)) is None
    assert not expires_soon(claim(created_at=None), NOW)


@pytest.mark.parametrize(
    ("grace", "asked", "pod", "why"),
    [
        (
            None,
            ("a",),
            {"annotations": {labels.DO_NOT_DISRUPT: "true"}},
            "pod default/p has karpenter.sh/do-not-disrupt",
        ),
        (None, ("a",), {"labels": {"app": "db"}}, "PodDisruptionBudget"),
        (None, ("a",), {}, ""),
        (None, ("other",), {"annotations": {labels.DO_NOT_DISRUPT: "true"}}, ""),
        (HOUR, ("a",), {"annotations": {labels.DO_NOT_DISRUPT: "true"}}, ""),
        (None, ("a",), {"annotations": {labels.DO_NOT_DISRUPT: "true"}, "node_name": "elsewhere"}, ""),
    ],
)
def test_a_drain_that_a_pod_blocks_for_ever_does_not_begin(
    grace: timedelta | None, asked: tuple[str, ...], pod: dict[str, Any], why: str
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
    found = objections(snapshot, asked)
    assert found.keys() == ({"a"} if why else set())
    assert why in found.get("a", "")
