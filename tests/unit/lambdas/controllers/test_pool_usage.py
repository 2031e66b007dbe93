"""Counters of limits and budgets are compared with the claims, and corrected where rows were lost or edited."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.run_report import RunReport
from adapters.store import PoolUsage
from core.lifecycle.records import ClaimRecord
from core.reasons.run import RunReason
from lambdas.controllers.pool_usage import mismatches, recount
from tests.fakes.store import MemoryClaims, Rows
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

HELD = {"cpu": 2000, "nodes": 1}


class Table:
    """A table with these claims, whose counters agree with them."""

    def __init__(self, *claims: ClaimRecord) -> None:
        self.rows = Rows()
        self.store = MemoryClaims(self.rows)
        self.rows.claims = {claim.name: claim for claim in claims}
        self.counted(cpu=2000 * len(claims), nodes=len(claims), disrupting=sum(c.is_disrupting for c in claims))

    def counted(self, pool: str = "default", *, disrupting: int = 0, **reserved: int) -> None:
        self.rows.usage[pool] = PoolUsage(node_pool=pool, reserved=reserved, disrupting=disrupting, version=1)

    def found(self) -> list[tuple[PoolUsage, PoolUsage]]:
        return mismatches(self.store, tuple(self.rows.claims.values()))

    def pools(self) -> list[str]:
        return [after.node_pool for _, after in self.found()]


def claim(name: str = "c", **changes: Any) -> ClaimRecord:
    return msgspec.structs.replace(a_record(reserved=HELD, **changes), name=name)


def test_counters_that_agree_are_read_once() -> None:
    table, reads = Table(claim("a"), claim("b", is_disrupting=True)), list[str]()
    table.rows.before_call = reads.append
    assert (table.found(), reads) == ([], ["read"])


@pytest.mark.parametrize(
    "counted",
    [
        {"cpu": 2001, "nodes": 1},
        {"cpu": 2000, "nodes": 2},
        {"cpu": 2000},
        {"cpu": 2000, "nodes": 1, "memory": 1},
        {"cpu": 2000, "nodes": 1, "disrupting": 1},
    ],
)
def test_counters_that_differ_in_anything_are_wrong(counted: dict[str, int]) -> None:
    table = Table(claim())
    table.counted(**counted)
    ((before, after),) = table.found()
    assert before == table.rows.usage["default"]
    assert (after.reserved, after.disrupting) == (HELD, 0)


def test_a_counter_of_nothing_is_as_good_as_none() -> None:
    table = Table(claim())
    table.counted(cpu=2000, nodes=1, memory=0)
    assert table.found() == []


def test_node_pools_are_compared_whether_they_have_claims_counters_or_both() -> None:
    table = Table(claim())
    table.rows.claims["d"] = claim("d", plan=a_plan(node_pool="uncounted"))
    table.counted("unclaimed", nodes=3)
    assert table.pools() == ["unclaimed", "uncounted"]
    assert [after.reserved for _, after in table.found()] == [{}, HELD]


def test_a_claim_without_a_node_pool_counts_nowhere() -> None:
    table = Table(claim())
    table.rows.claims["d"] = claim("d", plan=a_plan(node_pool=""))
    assert table.found() == []


def test_what_changed_while_it_was_compared_is_no_mismatch() -> None:
    """The claims are an observation's, some seconds old; only what still differs is corrected."""
    table = Table(claim())
    assert mismatches(table.store, ()) == []


class TestRecounted:
    """A counter is corrected unless it has changed since."""

    def test_it_is_what_the_claims_hold(self) -> None:
        table, report = Table(claim(is_disrupting=True)), RunReport()
        table.counted(cpu=1, nodes=2, disrupting=3)
        (mismatch,) = table.found()
        recount(table.store, mismatch, report)
        assert table.found() == []
        assert report.counts == {"repairedUsage": 1}
        (decision,) = report.decisions
        assert (decision.kind, decision.subject, decision.reason) == (
            "repair",
            "NodePool default",
            RunReason.USAGE_RECOUNTED,
        )
        assert decision.message == (
            "counted 2 nodes with 1 millicores, 3 going, its claims hold 1 nodes with 2000 millicores, 1 going"
        )

    def test_it_is_left_to_the_next_comparison_if_a_claim_changed(self) -> None:
        table, report = Table(claim()), RunReport()
        table.counted(cpu=1)
        (mismatch,) = table.found()
        changed = table.rows.usage["default"] = msgspec.structs.replace(table.rows.usage["default"], version=2)
        recount(table.store, mismatch, report)
        assert (table.rows.usage["default"], report.counts, report.decisions) == (changed, {}, [])
