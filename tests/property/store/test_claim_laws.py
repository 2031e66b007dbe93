"""Laws of the store of claims over random histories."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from adapters.aws.dynamodb.claims import DynamoClaims
from adapters.aws.dynamodb.coordination import DynamoLeases
from adapters.aws.dynamodb.table import DynamoTable
from adapters.ports import ConflictError
from adapters.store import PLANNER, ClaimChange, ClaimStore, Leases
from core.lifecycle.records import ClaimRecord
from tests.builders import NOW
from tests.fakes.account import FakeAccount
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

NAMES = st.sampled_from("abcdef")
POOLS = {"a": "one", "b": "one", "c": "one", "d": "two", "e": "two", "f": "two"}
HELD = {"cpu": 4000, "nodes": 1}

REQUEST = st.tuples(st.just("request"), NAMES)
DISRUPT = st.tuples(st.just("disrupt"), st.lists(NAMES, min_size=1, max_size=4, unique=True), st.integers(0, 3))
STALE = st.tuples(st.just("stale"), NAMES)
TAINT = st.tuples(st.just("taint"), NAMES)
STAY = st.tuples(st.just("stay"), NAMES)
FORGET = st.tuples(st.just("forget"), NAMES)
HISTORIES = st.lists(st.one_of(REQUEST, DISRUPT, STALE, TAINT, STAY, FORGET), max_size=25)


class History:
    """Does to claims what functions do."""

    def __init__(self, claims: ClaimStore, leases: Leases) -> None:
        self.claims = claims
        lease = leases.acquire(PLANNER, "me", now=NOW, for_=timedelta(minutes=1))
        assert lease is not None
        self._lease = lease

    def play(self, kind: str, what: str | list[str], bound: int = 0) -> None:
        """One operation; a missing claim stays missing."""
        records = [record for name in what if (record := self.claims.get(name)) is not None]
        if kind == "request":
            self._request(str(what))
        elif kind == "disrupt" and records:
            self.disrupt(records, bound)
        elif kind == "stale" and records:
            self._stale(records[0])
        elif kind == "taint" and records:
            self.claims.change(records[0], msgspec.structs.replace(records[0], reserved={}))
        elif kind == "stay" and records:
            self.claims.change(records[0], msgspec.structs.replace(records[0], reserved=HELD, is_disrupting=False))
        elif kind == "forget" and records:
            self.claims.forget(records[0])

    def disrupt(self, records: list[ClaimRecord], bound: int) -> None:
        """All of them leave or none, and never more than the bound allows."""
        before = self.counters()
        wanted = [ClaimChange(record, record) for record in records]
        spent = self.claims.disrupt(wanted, {"one": bound, "two": bound}).spent
        new = [POOLS[record.name] for record in records if not record.is_disrupting]
        assert spent == tuple(p for p in sorted(set(new)) if before.get(p, ({}, 0))[1] + new.count(p) > bound)
        if spent:
            assert self.counters() == before

    def _request(self, name: str) -> None:
        record = msgspec.structs.replace(
            a_record(age=timedelta(hours=1)), name=name, plan=a_plan(node_pool=POOLS[name]), reserved=HELD
        )
        self.claims.request([record], {}, self._lease)

    def _stale(self, record: ClaimRecord) -> None:
        old = msgspec.structs.replace(record, version=record.version - 1)
        try:
            self.claims.disrupt([ClaimChange(old, old)], {})
        except ConflictError:
            return
        raise AssertionError("a claim that has changed was let go")

    def counters(self) -> Mapping[str, tuple[Mapping[str, int], int]]:
        """NodePool → its counters, without those at zero."""
        counted_by_pool = {usage.node_pool: (usage.reserved, usage.disrupting) for usage in self.claims.usage()}
        return {pool: counted for pool, counted in counted_by_pool.items() if counted != ({}, 0)}

    def sums(self) -> Mapping[str, tuple[Mapping[str, int], int]]:
        """NodePool → the sum over its claims."""
        totals: dict[str, tuple[dict[str, int], int]] = {}
        for record in self.claims.all():
            held, places = totals.get(POOLS[record.name], ({}, 0))
            both = {name: held.get(name, 0) + record.reserved.get(name, 0) for name in {*held, *record.reserved}}
            totals[POOLS[record.name]] = (both, places + record.is_disrupting)
        return {pool: counted for pool, counted in totals.items() if counted != ({}, 0)}


@given(HISTORIES)
def test_counters_are_the_sums_of_what_claims_hold(history: list[tuple[str, str]]) -> None:
    """This holds after every operation."""
    account = FakeAccount()
    table = DynamoTable(account.client("dynamodb"), account.table)
    claims = History(DynamoClaims(table, "c"), DynamoLeases(table, "c"))
    for event in history:
        claims.play(*event)
        assert claims.counters() == claims.sums()
