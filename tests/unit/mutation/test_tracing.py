"""Each test is noted with all lines that it needs, whichever test ran before it."""

from __future__ import annotations

from functools import cache

from tests.mutation.tracing import caching_helpers

ASKED: list[int] = []


@cache
def helper(number: int) -> int:
    ASKED.append(number)
    return number


def test_what_a_helper_remembers_is_forgotten_between_tests() -> None:
    """Otherwise, only the first test that asks it seems to run the code behind it."""
    helper(1)
    helper(1)
    assert ASKED == [1]
    for one in caching_helpers():
        one.cache_clear()
    helper(1)
    assert ASKED == [1, 1]
