"""Denials that several runs write at the same time, and a table that does not answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.launch.denials.denial import DeniedLaunch, LaunchDenial
from core.model.catalogue import OfferingKey
from core.reasons.claim import ClaimReason
from lambdas.controllers.launching.denial_memory import TRIES, DenialMemory
from tests.builders import NOW
from tests.fakes.store import MemoryDenials, Rows

CODE = "UnauthorizedOperation"
FOUND = DeniedLaunch(
    node_class="default",
    code=CODE,
    call="ec2:CreateFleet",
    message="no",
    offerings=(OfferingKey("m5.large", "us-east-1a", "spot"),),
    node_pool="default",
    revision="u/1",
)


class Table:
    """The table, in which another run may write the same denial right before this one does."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.memory = DenialMemory(MemoryDenials(self.rows))
        self.report = RunReport()

    @property
    def denial(self) -> LaunchDenial:
        return self.rows.denials["default", CODE]

    def add(self) -> None:
        self.memory.add(FOUND, NOW, self.report)

    def before_writes(self, times: int, act: Callable[[], None]) -> None:
        """Act before this many of the next writes."""
        left = [act] * times

        def intrude(call: str) -> None:
            if call == "write" and left:
                left.pop()()

        self.rows.before_call = intrude

    def touch(self) -> None:
        known = self.rows.denials.get(("default", CODE), LaunchDenial(node_class="default", code=CODE))
        self.rows.denials["default", CODE] = msgspec.structs.replace(known, version=known.version + 1)

    def skipped(self) -> list[tuple[str, str, str]]:
        return [(one.kind, one.subject, one.reason) for one in self.report.decisions]


@pytest.fixture
def table() -> Table:
    return Table()


def fail() -> None:
    raise TransientError("dynamodb:UpdateItem", "throttled")


def test_each_failure_counts_and_one_of_another_class_or_code_does_not(table: Table) -> None:
    for other in (msgspec.structs.replace(FOUND, node_class="other"), msgspec.structs.replace(FOUND, code="Other")):
        table.memory.add(other, NOW, table.report)
    table.add()
    table.add()
    assert (table.denial.in_a_row, len(table.rows.denials)) == (2, 3)
    assert (table.report.counts, table.report.decisions) == ({}, [])


def test_a_denial_that_others_write_too_is_written_again(table: Table) -> None:
    table.before_writes(TRIES - 1, table.touch)
    table.add()
    assert (table.denial.in_a_row, table.report.decisions) == (1, [])


def test_after_many_conflicts_it_is_reported_and_left(table: Table) -> None:
    table.before_writes(TRIES, table.touch)
    table.add()
    assert table.denial.in_a_row == 0
    assert (table.skipped(), table.report.counts) == ([("skip", f"denial {CODE}", "ConflictError")], {"portErrors": 1})


def test_a_table_that_does_not_answer_is_asked_once(table: Table) -> None:
    table.before_writes(1, fail)
    table.add()
    assert table.rows.denials == {}
    assert (table.skipped(), table.report.counts) == ([("skip", f"denial {CODE}", "TransientError")], {"portErrors": 1})


class TestDropped:
    """A denial that was disproved."""

    @pytest.fixture(autouse=True)
    def denied(self, table: Table) -> None:
        table.add()

    def drop(self, table: Table) -> None:
        table.memory.drop(table.denial, ClaimReason.LAUNCHED, table.report)

    def test_that_held_launches_back_is_reported(self, table: Table) -> None:
        self.drop(table)
        assert table.rows.denials == {}
        (one,) = table.report.decisions
        assert (one.kind, one.subject, one.reason) == ("release", "EC2NodeClass default", ClaimReason.LAUNCHED)
        assert one.message == f"no longer {CODE}"

    def test_that_held_nothing_back_is_not(self, table: Table) -> None:
        table.rows.denials["default", CODE] = msgspec.structs.replace(table.denial, until=None)
        self.drop(table)
        assert (table.rows.denials, table.report.decisions) == ({}, [])

    def test_that_came_again_meanwhile_stays(self, table: Table) -> None:
        table.before_writes(1, table.touch)
        self.drop(table)
        assert (len(table.rows.denials), table.report.decisions, table.report.counts) == (1, [], {})

    def test_where_the_table_does_not_answer_is_reported(self, table: Table) -> None:
        table.before_writes(1, fail)
        self.drop(table)
        assert table.skipped() == [("skip", f"denial {CODE}", "TransientError")]
