"""EC2's quotas are read in every run, and stored where that tells others anything."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.model.values.quota_reading import QuotaReading
from lambdas.controllers.maintenance.quotas import WRITTEN_EVERY, QuotaRefresh
from tests.builders import NOW

READING = QuotaReading(limits={"L-1": 64}, used={"shop": {"L-1": 8}}, limits_read_at=NOW, used_read_at=NOW)


class Quotas:
    """The account and the bucket in one: what is read next, what is stored, and what was stored in this run."""

    def __init__(self, stored: QuotaReading | None, found: QuotaReading | Exception) -> None:
        self.stored, self.found = stored, found
        self.saved: list[QuotaReading] = []

    def reading(self) -> QuotaReading | None:
        return self.stored

    def read(self, previous: QuotaReading | None) -> QuotaReading:
        assert previous is self.stored
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def save(self, reading: QuotaReading) -> None:
        self.saved.append(reading)


def later(span: timedelta, **changes: Any) -> QuotaReading:
    return msgspec.structs.replace(READING, used_read_at=NOW + span, **changes)


@pytest.mark.parametrize(
    ("stored", "found", "is_saved"),
    [
        (None, READING, True),
        (READING, later(timedelta(minutes=1)), False),
        (READING, later(timedelta(minutes=1), used={"shop": {"L-1": 9}}), True),
        (READING, later(timedelta(minutes=1), limits={"L-1": 128}), True),
        (READING, later(WRITTEN_EVERY - timedelta(seconds=1)), False),
        (READING, later(WRITTEN_EVERY), True),
    ],
)
def test_a_reading_is_stored_where_it_differs_or_the_stored_one_is_old(
    stored: QuotaReading | None, found: QuotaReading, *, is_saved: bool
) -> None:
    """A write each minute costs more than all reads; a reading that is never renewed counts for nothing after half an hour."""
    quotas, report = Quotas(stored, found), RunReport()
    assert QuotaRefresh(quotas, quotas).refresh(report) is found
    assert quotas.saved == ([found] if is_saved else [])
    assert (report.counts, report.decisions) == ({}, [])


def test_what_cannot_be_read_is_told_each_by_itself() -> None:
    quotas, report = Quotas(READING, later(timedelta(0), problems=("L-1: denied", "L-2: denied"))), RunReport()
    QuotaRefresh(quotas, quotas).refresh(report)
    assert report.counts["quotaProblems"] == 2
    assert [d.message for d in report.decisions] == ["L-1: denied", "L-2: denied"]
    failing, other = Quotas(READING, TransientError("servicequotas:List", "throttled")), RunReport()
    assert QuotaRefresh(failing, failing).refresh(other) is None
    assert (other.counts["quotaProblems"], failing.saved) == (1, [])
