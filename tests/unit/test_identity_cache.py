"""Results that are cached by the identity of what they are computed from."""

from __future__ import annotations

from core.identity_cache import ByIdentity


def test_equal_values_are_told_apart_and_the_same_one_is_computed_once() -> None:
    """An identity stays taken as long as its result is cached: another object never gets it."""
    computed: list[list[int]] = []

    def length(value: list[int]) -> int:
        computed.append(value)
        return len(value)

    cached = ByIdentity(length, size=2)
    one, equal = [1, 2], [1, 2]
    assert [cached(value) for value in (one, one, equal, one)] == [2, 2, 2, 2]
    assert [found is one for found in computed] == [True, False]


def test_the_value_that_was_asked_for_longest_ago_is_forgotten_first() -> None:
    """Otherwise, the catalogue of the present snapshot goes when two others are looked at."""
    computed: list[str] = []

    def noted(value: str) -> str:
        computed.append(value)
        return value

    cached = ByIdentity(noted, size=2)
    for value in ("a", "b", "a", "c", "a", "b"):
        cached(value)
    assert computed == ["a", "b", "c", "b"]
