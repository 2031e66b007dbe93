"""Random numbers: each purpose has its own stream, so that a new draw for one purpose does not change the others."""

from __future__ import annotations

from random import Random


def stream(seed: int, purpose: str) -> Random:
    """Return the random stream of one purpose under this seed."""
    return Random(f"{seed}/{purpose}")  # noqa: S311 - a simulation must be repeatable
