"""How long a node is held for its turn."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.lifecycle.binding.holding import HOLD_AT_MOST, QUIET_FOR, is_hold_over, may_have_a_turn, plan_stamp
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_record

SECOND = timedelta(seconds=1)
LONG_AGO = NOW - QUIET_FOR


def a_held_claim(name: str = "default-x-0", phase: ClaimPhase = ClaimPhase.REGISTERED, **changes: Any) -> ClaimRecord:
    """A claim of plan `x` whose node has been usable for some time."""
    fields = {"moments": Moments(usable_at=LONG_AGO), **changes}
    return msgspec.structs.replace(a_record(phase), name=name, **fields)


OWN = a_held_claim()


@pytest.mark.parametrize(
    ("other", "may"),
    [
        (a_held_claim("default-x-1"), False),
        (a_held_claim("default-x-1", moments=Moments()), True),
        (a_held_claim("default-x-1", ClaimPhase.LAUNCHED, moments=Moments()), True),
        (a_held_claim("default-x-1", ClaimPhase.REQUESTED, moments=Moments()), True),
        (a_held_claim("default-x-1", moments=Moments(usable_at=NOW - SECOND)), True),
        (a_held_claim("default-x-1", moments=Moments(usable_at=LONG_AGO, bound_at=NOW - SECOND)), True),
        (a_held_claim("default-x-1", moments=Moments(usable_at=LONG_AGO, bound_at=LONG_AGO)), False),
        (a_held_claim("default-x-1", moments=Moments(), is_bound=True), False),
        (a_held_claim("default-x-1", ClaimPhase.INITIALIZED, moments=Moments(), initialized_at=NOW), False),
        (a_held_claim("default-x-1", moments=Moments(), deletion=Deletion(reason="r", asked_at=NOW)), False),
        (a_held_claim("default-y-1", moments=Moments()), False),
    ],
)
def test_a_turn_comes_while_others_of_the_plan_come(other: ClaimRecord, may: bool) -> None:
    assert may_have_a_turn(OWN, [OWN, other], NOW) is may


def test_a_hold_ends() -> None:
    assert not is_hold_over(OWN, NOW)
    assert is_hold_over(a_held_claim(moments=Moments(usable_at=NOW - HOLD_AT_MOST)), NOW)
    assert not is_hold_over(a_held_claim(moments=Moments()), NOW)


def test_claims_of_one_plan_have_one_stamp() -> None:
    """Names of NodePools may contain dashes."""
    assert plan_stamp(a_held_claim("my-pool-x-12")) == plan_stamp(a_held_claim("other-x-3")) == "x"
