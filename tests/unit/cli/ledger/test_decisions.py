"""Decisions are found by cluster, time and id, and an empty answer says what there is instead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from cli.errors import InputError
from cli.ledger.decisions import DAYS_LISTED, entries, find, outcomes, refuse_none
from core.ledger.object_keys import outcome_key
from core.ledger.outcome import DecisionOutcome, OutcomeState
from tests.unit.cli.ledger.stored import MemoryLedger, an_entry, asked

NOW = datetime.now(UTC).replace(microsecond=0)


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


LEDGER = MemoryLedger(
    an_entry("aaaa11", ago(hours=2)),
    an_entry("aaaa22", ago(days=3)),
    an_entry("bbbb33", ago(days=60)),
    an_entry("cccc44", ago(hours=1), cluster="test"),
    objects={"bases/prod/x": b"", "decisions/prod/notes": b""},
)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, ["bbbb33", "aaaa22", "aaaa11", "cccc44"]),
        ({"cluster": "prod"}, ["bbbb33", "aaaa22", "aaaa11"]),
        ({"cluster": "pro"}, []),
        ({"cluster": "prod", "since": ago(days=4)}, ["aaaa22", "aaaa11"]),
        ({"cluster": "prod", "since": ago(days=3)}, ["aaaa22", "aaaa11"]),
        ({"cluster": "prod", "since": ago(days=2.9)}, ["aaaa11"]),
        ({"cluster": "prod", "since": ago(hours=2)}, ["aaaa11"]),
        ({"cluster": "prod", "since": ago(hours=1.9)}, []),
        ({"cluster": "prod", "since": ago(days=60)}, ["bbbb33", "aaaa22", "aaaa11"]),
        ({"since": ago(days=4)}, ["aaaa22", "aaaa11", "cccc44"]),
    ],
)
def test_decisions_of_a_cluster_and_a_time_are_in_its_order(arguments: dict[str, Any], found: list[str]) -> None:
    assert [key.id for key in find(LEDGER, asked(**arguments))] == found


class Listing(MemoryLedger):
    """Notes the prefixes that are listed."""

    def __init__(self) -> None:
        super().__init__()
        self.prefixes: list[str] = []

    def keys(self, prefix: str) -> list[str]:
        self.prefixes.append(prefix)
        return []


def test_few_days_are_listed_one_by_one_and_many_at_once() -> None:
    """A request takes some thirty milliseconds, and a bucket may have years."""
    few, many, every = Listing(), Listing(), Listing()
    find(few, asked(cluster="prod", since=ago(days=1)))
    find(many, asked(cluster="prod", since=ago(days=DAYS_LISTED.days + 1)))
    find(every, asked(since=ago(days=1)))
    day = "decisions/prod/%Y/%m/%d/"
    ahead = ago(days=-1)  # the clock of a function may be ahead
    assert few.prefixes[:3] == [moment.strftime(day) for moment in (ago(days=1), NOW, ahead)]
    assert (many.prefixes, every.prefixes) == (["decisions/prod/"], ["decisions/"])


def test_an_id_may_be_cut_as_long_as_it_names_one_decision() -> None:
    assert [key.id for key in find(LEDGER, asked(), ["cccc", "aaaa2", "cccc44"])] == ["aaaa22", "cccc44"]
    exact = MemoryLedger(an_entry("aaaa", ago(hours=1)), an_entry("aaaab", ago(hours=2)))
    assert [key.id for key in find(exact, asked(), ["aaaa"])] == ["aaaa"]


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ("aaaa", "2 decisions begin with 'aaaa'"),
        ("dddd", "there is no decision 'dddd'"),
        ("ccc", "'ccc' is too short to name a decision"),
    ],
)
def test_an_id_that_names_none_or_several_is_refused(wanted: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        find(LEDGER, asked(), [wanted])


@pytest.mark.parametrize(
    ("ledger", "arguments", "problem", "hint"),
    [
        (MemoryLedger(), {}, "there is no decision in the ledger", "the folder of `fleetwright simulate --ledger`"),
        (
            LEDGER,
            {"cluster": "dev"},
            "there is no decision of cluster 'dev' in the ledger",
            "it has those of prod, test",
        ),
        (
            LEDGER,
            {"cluster": "prod"},
            "there is no decision of that time in the ledger",
            f"it has those from {ago(days=60):%Y-%m-%dT%H:%M:%SZ} to {ago(hours=2):%Y-%m-%dT%H:%M:%SZ}",
        ),
        (
            LEDGER,
            {},
            "there is no decision of that time in the ledger",
            f"it has those from {ago(days=60):%Y-%m-%dT%H:%M:%SZ} to {ago(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        ),
    ],
    ids=[
        "empty-ledger",
        "other-cluster",
        "other-time-of-a-cluster",
        "other-time",
    ],  # no moment is part of a test's name
)
def test_an_empty_answer_says_what_the_ledger_has(
    ledger: MemoryLedger, arguments: dict[str, Any], problem: str, hint: str
) -> None:
    with pytest.raises(InputError) as raised:
        refuse_none([], ledger, asked(**arguments))
    assert problem in str(raised.value)
    assert hint in (raised.value.hint or "")
    refuse_none(find(LEDGER, asked()), ledger, asked(**arguments))


def test_headers_come_with_their_keys_and_outcomes_of_the_cluster_alone() -> None:
    keys = find(LEDGER, asked(cluster="prod"))
    assert [(key.id, entry.id) for key, entry in entries(LEDGER, keys)] == [(key.id, key.id) for key in keys]
    ended = DecisionOutcome(decision="aaaa11", part="x", state=OutcomeState.DONE, at=NOW)
    stored = {outcome_key(cluster, NOW, "disrupt", "d"): msgspec.json.encode([ended]) for cluster in ("prod", "test")}
    assert outcomes(MemoryLedger(objects=stored), asked(cluster="prod")) == [ended]
