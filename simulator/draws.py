"""Chance: each draw comes from a stream named by its purpose, so that one more draw here moves nothing there."""

from __future__ import annotations

from random import Random


def stream(seed: int, purpose: str) -> Random:
    """The stream of draws for one purpose under this seed."""
    return Random(f"{seed}/{purpose}")  # noqa: S311 - a simulation must be repeatable
