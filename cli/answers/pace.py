"""Says how often a simulation of a recorded period decides which nodes go."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from cli.terminal.output import counted
from core.counterfactual.fleet_simulation import TICK, tick_of
from core.model.node_pool import NodePool

SECOND: Final = timedelta(seconds=1)


def pace(period: timedelta) -> str:
    """Return the assumption of each answer with a simulation of so long a period."""
    tick = tick_of(period)
    if tick <= TICK:
        return f"nodes are let go every {minutes(TICK)} at most"
    return (
        f"nodes are let go every {minutes(tick)} at most; every {minutes(TICK)} at most where they have no pods, "
        "are left for a later wave, or a budget changes"
    )


def pace_warnings(given: Iterable[NodePool], recorded: Iterable[NodePool], period: timedelta) -> list[str]:
    """Return a warning for each changed `consolidateAfter` that ends between two decisions."""
    tick, before = tick_of(period), {pool.name: pool.disruption.consolidate_after for pool in recorded}
    return [
        f"NodePool {pool.name}: consolidateAfter of {wait // SECOND} s is shorter than the {minutes(tick)} "
        "between two decisions, so the simulation shows less of its effect"
        + ("; a period of less than 21 hours has more decisions" if tick > TICK else "")
        for pool in given
        if (wait := pool.disruption.consolidate_after) is not None and wait < tick and wait != before.get(pool.name)
    ]


def minutes(span: timedelta) -> str:
    """Return the rounded minutes in words."""
    return counted(max(1, round(span / timedelta(minutes=1))), "minute")
