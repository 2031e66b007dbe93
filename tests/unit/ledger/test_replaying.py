"""A decision is repeated by the function that made it, and a difference is named by its field."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from core import codec
from core.disruption import disrupt
from core.ledger.entry import DISRUPT, PROVISION, LedgerEntry
from core.ledger.replaying import DIFFERENCES_SHOWN, decided_again, differences
from core.scheduling import schedule
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type

TYPE = a_type("m5.large")
CLAIM, NODE = a_node_of(TYPE)
WORLD = a_snapshot(types=(TYPE,), pods=(a_pod("a"),), nodes=(NODE,), node_claims=(CLAIM,))


def entry(function: str, **changes: Any) -> LedgerEntry:
    fixed = {
        "cluster": "c",
        "version": "1",
        "catalogue": "d",
        "base": "b",
        "plan_digest": "p",
        "what": "",
        "reason": "",
    }
    return LedgerEntry(id="i", at=NOW, function=function, **{**fixed, "improve_iterations": 3, **changes})


def test_each_function_decides_again_under_the_recorded_bound() -> None:
    bounded = msgspec.structs.replace(WORLD, options=msgspec.structs.replace(WORLD.options, improve_iterations=3))
    assert decided_again(entry(PROVISION), WORLD) == codec.encode_plan(schedule(bounded))
    assert decided_again(entry(DISRUPT), WORLD) == codec.encode_disruption_plan(disrupt(bounded))


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["a.b[1]: 2 became 3"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a: 1 elements became 2"]),
        ({"a": [{"b": 1}, 2]}, {"a": [{"b": 2}]}, ["a: 2 elements became 1", "a[0].b: 1 became 2"]),
        ({"a": [1]}, {"a": {"b": 1}}, ['a: [1] became {"b": 1}']),
        ({"a": {"b": 1}}, {"a": [1]}, ['a: {"b": 1} became [1]']),
        ({"a": [1]}, {"a": "x"}, ['a: [1] became "x"']),
        ({"a": [1]}, {"a": "xy"}, ['a: [1] became "xy"']),
        ({"a": 1, "b": 1}, {"b": 2, "c": 3}, ["a: 1 became null", "b: 1 became 2", "c: null became 3"]),
        ({"a": "x" * 118}, {"a": 1}, [f'a: "{"x" * 118}" became 1']),
        ({"a": "x" * 119}, {"a": 1}, [f'a: "{"x" * 119}… became 1']),
    ],
)
def test_differences_are_named_by_their_path(before: object, after: object, found: list[str]) -> None:
    assert differences(json.dumps(before).encode(), json.dumps(after).encode()) == found


def test_only_the_first_differences_are_shown() -> None:
    before, after = ({f"k{number}": value for number in range(9)} for value in (1, 2))
    shown = differences(json.dumps(before).encode(), json.dumps(after).encode())
    assert shown == [f"k{number}: 1 became 2" for number in range(DIFFERENCES_SHOWN)]
