"""Resource vectors: a mapping from resource name to a whole amount in the units of `core.model.values.quantity`.

A name that is missing counts as zero. Results are plain dictionaries; arguments are never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from core.errors import InvalidInputError
from core.model.values import quantity

Resources = Mapping[str, int]


def parse(raw: Mapping[str, object] | None, *, field: str = "") -> dict[str, int]:
    """Read a Kubernetes ResourceList.

    Raises:
        InvalidInputError: If an amount is not a quantity or is negative; the field path names the resource.
    """
    result: dict[str, int] = {}
    for name, text in (raw or {}).items():
        where = f"{field}.{name}" if field else name
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise InvalidInputError(f"{text!r} is not a quantity", field=where)
        try:
            amount = quantity.parse(text, name)
        except InvalidInputError as error:
            raise InvalidInputError(error.problem, field=where) from error
        if amount < 0:
            raise InvalidInputError(f"{text!r} is negative", field=where)
        result[name] = amount
    return result


def render(resources: Resources) -> dict[str, str]:
    """Format a ResourceList, names in order."""
    return {name: quantity.render(resources[name], name) for name in sorted(resources)}


def add(*vectors: Resources) -> dict[str, int]:
    """Return the sum for each name."""
    total: dict[str, int] = {}
    for vector in vectors:
        for name, amount in vector.items():
            total[name] = total.get(name, 0) + amount
    return total


def subtract(left: Resources, right: Resources) -> dict[str, int]:
    """Return `left - right`, which may be negative."""
    result = dict(left)
    for name, amount in right.items():
        result[name] = result.get(name, 0) - amount
    return result


def maximum(vectors: Iterable[Resources]) -> dict[str, int]:
    """Return the largest amount for each name."""
    result: dict[str, int] = {}
    for vector in vectors:
        for name, amount in vector.items():
            if amount > result.get(name, 0) or name not in result:
                result[name] = amount
    return result


def fits(requested: Resources, available: Resources) -> bool:
    """Whether `available` covers `requested`.

    As in Karpenter: a negative amount in `available` refuses everything, requested or not; a request of zero of an unknown
    resource is fine.
    """
    if any(amount < 0 for amount in available.values()):
        return False
    return all(amount <= available.get(name, 0) for name, amount in requested.items())
