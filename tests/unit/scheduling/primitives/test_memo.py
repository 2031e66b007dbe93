"""Answers are computed once, and their owners are freed when no longer needed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from core.scheduling.instance_types.type_filter import TypeFilter
from core.scheduling.instance_types.type_index import TypeIndex
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import ResourceAxis
from tests.builders import a_type
from tests.unit.scheduling.reading import context_of


def test_each_answer_is_computed_once() -> None:
    """Otherwise, a plan computes the same mask for every pod."""
    asked: list[tuple[int, str]] = []

    def answer(number: int, text: str) -> str:
        asked.append((number, text))
        return text * number

    ask = memo(answer)
    assert [ask(2, "a"), ask(2, "a"), ask(3, "a")] == ["aa", "aa", "aaa"]
    assert asked == [(2, "a"), (3, "a")]


def a_filter() -> object:
    table = RequirementTable(frozenset())
    types = TypeFilter.of(TypeIndex((a_type(),)), frozenset(), table, ResourceAxis(["cpu"]))
    reqs = table.conjunction(())
    types.offerings.cheapest(types.mask(reqs), reqs)
    return types


def a_context() -> object:
    return context_of(types=(a_type(),))


@pytest.mark.parametrize("make", [a_filter, a_context])
def test_an_owner_of_memos_is_freed_without_the_collector(make: Callable[[], object]) -> None:
    """Otherwise, every what-if stays in memory while the collector is off (`core.gc_pause`)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        made = make()
        gone = weakref.ref(made)
        del made
        assert gone() is None
    finally:
        if was_on:
            gc.enable()
