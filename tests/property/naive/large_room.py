"""What pods need together, and where that is too much."""

from __future__ import annotations

from collections.abc import Iterator

from core.model.pod import PodSpec


def total(specs: list[PodSpec]) -> dict[str, int]:
    """The sum of their requests."""
    total: dict[str, int] = {}
    for spec in specs:
        for name, amount in spec.requests.items():
            total[name] = total.get(name, 0) + amount
    return total


def overfull(name: str, needed: dict[str, int], room: dict[str, int]) -> Iterator[str]:
    """A line for each resource of which the node has too little."""
    for resource, amount in needed.items():
        if amount > room.get(resource, 0):
            yield f"room: {name} needs {amount} {resource} of {room.get(resource, 0)}"
