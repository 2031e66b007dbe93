"""Random numbers: each purpose has a stream of its own, so that a new draw for one purpose does not change the others."""

from __future__ import annotations

from random import Random


def stream(seed: int, purpose: str) -> Random:
    """The stream of draws for one purpose under this seed."""
    return Random(f"{seed}/{purpose}")  # noqa: S311 - a simulation must be repeatable
