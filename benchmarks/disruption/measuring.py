"""One fragmented cluster under one policy: the final cost of its fleet, how many pods move, and CPU seconds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.fleet_cost import fleet_price
from core.disruption.fleet_floor import fleet_floor
from core.disruption.stored_targets import after_commands, encode
from core.gc_pause import collector_paused
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot
from core.model.values.quantity import dollars

JsonObject = dict[str, Any]
T = TypeVar("T")

WAYS: Final = ("thorough", "balanced", "gentle", "strict", "karpenter", "karpenter-strict")
"""Prices of a move with SpotToSpotConsolidation on; `strict`: balanced with it off; and Karpenter's own moves with both."""


def measured(snapshot: Snapshot, ways: tuple[str, ...]) -> JsonObject:
    """The cluster before, its proven minimum, and the result of each policy with all budgets kept in every wave."""
    look_seconds, first = _timed(lambda: DisruptionPass(snapshot))
    bound_seconds, bound = _timed(lambda: fleet_floor(first))
    return {
        "before": dollars(fleet_price(snapshot)),
        "bound": dollars(bound),
        "lookSeconds": look_seconds,
        "boundSeconds": bound_seconds,
        "ways": {way: _way(snapshot, way, bound) for way in ways},
    }


def _way(snapshot: Snapshot, way: str, bound: int) -> JsonObject:
    whole = _under(snapshot, way, ignore_budgets=True)
    seconds, plan = _timed(lambda: disrupt(whole, proves=False))
    moves = Counter(move.pod for command in plan.commands for move in command.moves)
    found: JsonObject = {
        "after": dollars(plan.cost.after),
        "ofBound": plan.cost.after / bound if bound else None,
        "moves": sum(moves.values()),
        "mostMovesOfAPod": max(moves.values(), default=0),
        "waves": max((command.wave for command in plan.commands), default=0),
        "wholeWaySeconds": seconds,
    }
    return found if way.startswith("karpenter") else found | _looks(_under(snapshot, way, ignore_budgets=False))


def _looks(snapshot: Snapshot) -> JsonObject:
    """The first run within budgets, and a second one that finds its target stored and its first wave in progress."""
    seconds, plan = _timed(lambda: disrupt(snapshot, proves=False))
    found: JsonObject = {"firstLookSeconds": seconds, "firstWaveNodes": sum(len(c.nodes) for c in plan.commands)}
    rest = plan.target and after_commands(plan.target, plan.commands, snapshot.pods, {})
    if rest is None:
        return found
    again_seconds, again = _timed(lambda: disrupt(_after(snapshot, plan), proves=False))
    return found | {
        "storedBytes": len(encode(rest)),
        "nextLookSeconds": again_seconds,
        "nextLookReason": again.target_reason,
    }


def _after(snapshot: Snapshot, plan: DisruptionPlan) -> Snapshot:
    """The world once the plan's commands are done, and what is left of its target."""
    from core.disruption.apply_command import carried_out

    rest = plan.target and after_commands(plan.target, plan.commands, snapshot.pods, {})
    return msgspec.structs.replace(carried_out(snapshot, *plan.commands), stored_target=rest)


def _under(snapshot: Snapshot, way: str, *, ignore_budgets: bool) -> Snapshot:
    gates = msgspec.structs.replace(
        snapshot.options.feature_gates, spot_to_spot_consolidation=not way.endswith("strict")
    )
    options = msgspec.structs.replace(
        snapshot.options,
        feature_gates=gates,
        ignore_budgets=ignore_budgets,
        karpenter_moves_only=way.startswith("karpenter"),
        moves=way if way in ("thorough", "gentle") else "balanced",
    )
    return msgspec.structs.replace(snapshot, options=options)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds, and the result."""
    began = time.process_time()
    with collector_paused():
        found = work()
    return time.process_time() - began, found
