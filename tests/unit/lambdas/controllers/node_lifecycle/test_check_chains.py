"""Of the chains of checks of a claim one goes on: the one that lasts longest."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from adapters.messages import CHECKED_FOR
from core.lifecycle.records import ClaimRecord
from lambdas.controllers.node_lifecycle.check_chains import CLOCKS_APART, CheckChains
from tests.builders import NOW
from tests.fakes.lab import Lab
from tests.unit.lifecycle.records_for_tests import a_record

SECOND = timedelta(seconds=1)
UNTIL = NOW + CHECKED_FOR


def check(stored: datetime | None, until: datetime | None, *, now: datetime = NOW) -> tuple[bool, datetime | None, int]:
    """Check a claim with a stored chain: whether the chain goes on, what is stored then, and the writes."""
    lab = Lab()
    claims = lab.app.adapters.stores.claims
    record = claims.restore(a_record(checked_until=stored))
    assert record is not None
    writes: list[str] = []
    lab.rows.before_call = writes.append
    goes_on = CheckChains(claims).goes_on(record, until, now)
    lab.rows.before_call = lambda _: None
    return goes_on, lab.claim.checked_until, writes.count("write")


def test_the_first_chain_and_a_longer_one_are_stored_and_go_on() -> None:
    assert check(None, UNTIL) == (True, UNTIL, 1)
    assert check(UNTIL - SECOND, UNTIL) == (True, UNTIL, 1)


def test_the_stored_chain_goes_on_without_a_write() -> None:
    """A claim is checked each second while it boots."""
    assert check(UNTIL, UNTIL) == (True, UNTIL, 0)


def test_a_shorter_chain_ends() -> None:
    assert check(UNTIL, UNTIL - SECOND) == (False, UNTIL, 0)


def test_a_single_check_belongs_to_no_chain_and_stores_none() -> None:
    assert check(UNTIL, None) == (True, UNTIL, 0)
    assert check(None, None) == (True, None, 0)


@pytest.mark.parametrize(("beyond", "goes_on"), [(timedelta(0), False), (SECOND, True)])
def test_a_stored_chain_of_a_clock_that_is_ahead_does_not_end_the_others(beyond: timedelta, goes_on: bool) -> None:
    """It may go on nowhere, and the claim would be checked by none until that moment."""
    stored = NOW + CHECKED_FOR + CLOCKS_APART + beyond
    until = UNTIL - SECOND
    assert check(stored, until) == ((True, until, 1) if goes_on else (False, stored, 0))


def test_a_chain_longer_than_any_clock_allows_ends_shorter_ones() -> None:
    """A message of a longer chain of ours is no wrong clock: the bound is the longer of the two."""
    until = NOW + timedelta(hours=1)
    assert check(until + SECOND, until) == (True, until, 1)
    assert check(until, until - SECOND) == (True, until - SECOND, 1)


def test_a_claim_that_changed_meanwhile_keeps_its_row_and_the_chain_goes_on() -> None:
    lab = Lab()
    claims = lab.app.adapters.stores.claims
    record = claims.restore(a_record())
    assert record is not None
    changed: ClaimRecord = claims.change(record, a_record(message="meanwhile"))
    assert CheckChains(claims).goes_on(record, UNTIL, NOW)
    assert (lab.claim.message, lab.claim.checked_until, changed.checked_until) == ("meanwhile", None, None)
