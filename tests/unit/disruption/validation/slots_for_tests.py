"""Commands for the tests of the places of their pods."""

from __future__ import annotations

from typing import Any

from core.model.plan import Command, Move, PlannedClaim
from tests.builders import CLASS_REF, ZONES


def a_command(moves: list[Move], **new: Any) -> Command:
    """One that moves these pods, to a node `new` if it names that."""
    fields = {"node_class": CLASS_REF, "node_pool": "default", "instance_types": ("t-4",), "zones": ZONES, **new}
    return Command(
        reason="Drifted",
        method="drift",
        nodes=("a",),
        claims=("a",),
        moves=tuple(moves),
        replacements=tuple(
            PlannedClaim(name=n, **fields) for n in sorted({m.to for m in moves if m.to.startswith("new")})
        ),
    )
