"""minValues: a claim must leave EC2 enough kinds of instance types to choose from."""

from __future__ import annotations

from collections.abc import Mapping

from core.scheduling.type_filter import TypeFilter


def unmet(types: TypeFilter, mask: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Label key → how many distinct values the types have, for each key that has fewer than wanted."""
    found = {key: types.distinct(mask, key) for key in sorted(wanted)}
    return {key: count for key, count in found.items() if count < wanted[key]}


def cut(
    types: TypeFilter, priced: list[tuple[int, int]], wanted: Mapping[str, int], most: int
) -> list[tuple[int, int]]:
    """The first `most` (price, type) of a list in price order; dearer ones get in where minValues needs them."""
    if len(priced) <= most:
        return priced
    chosen = _first_of_each(types, [position for _, position in priced], wanted)
    for _, position in priced:
        if len(chosen) >= most:
            break
        chosen.add(position)
    return [entry for entry in priced if entry[1] in chosen]


def _first_of_each(types: TypeFilter, ordered: list[int], wanted: Mapping[str, int]) -> set[int]:
    chosen: set[int] = set()
    mask = 0
    for key in sorted(wanted):
        for position in ordered:
            if types.distinct(mask, key) >= wanted[key]:
                break
            if types.distinct(mask | 1 << position, key) > types.distinct(mask, key):
                mask |= 1 << position
                chosen.add(position)
    return chosen
