"""Condition QuotaShort."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from lambdas.controllers.status.periodic_reading import READ_EVERY
from lambdas.controllers.status.quota_condition import QuotaConditions
from tests.builders import NOW, a_pool
from tests.fakes.quotas import MemoryQuotas
from tests.fakes.world import FakeClock
from tests.unit.pools.test_short_quotas import P_SHORT, READING, STANDARD_SHORT


def test_the_condition_has_code_and_numbers_and_is_read_now_and_then() -> None:
    """A person raises the quota by its code."""
    store, clock = MemoryQuotas(), FakeClock(NOW)
    conditions = QuotaConditions(store, clock)
    conditions.read()
    assert conditions.of(a_pool())["status"] == "Unknown"
    store.kept = READING
    conditions.read()
    assert conditions.of(a_pool())["status"] == "Unknown"
    clock.advance(seconds=READ_EVERY.total_seconds())
    conditions.read()
    told = conditions.of(a_pool())
    assert (told["status"], told["message"]) == ("True", f"{STANDARD_SHORT}; {P_SHORT}")
    store.kept = msgspec.structs.replace(READING, used={}, used_read_at=NOW + timedelta(minutes=10))
    clock.advance(seconds=READ_EVERY.total_seconds())
    conditions.read()
    assert conditions.of(a_pool())["status"] == "False"
