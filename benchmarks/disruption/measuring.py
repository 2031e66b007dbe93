"""Measures fragmented clusters under one policy: the final cost of the fleet, the number of moved pods, and CPU seconds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from core.api.objects import JsonObject
from core.disruption import disrupt
from core.disruption.command import carried_out
from core.disruption.disruption_pass import DisruptionPass, fleet_price
from core.disruption.target.fleet import spot_is_gated, target_fleet
from core.disruption.target.search import TargetSearch, fleet_floor
from core.disruption.target.stored import after_commands, encode
from core.interpreter import collector_paused
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot
from core.model.values.quantity import dollars
from core.packing.fleet_target import DOLLARS

T = TypeVar("T")

WAYS: Final = ("thorough", "balanced", "gentle", "strict")
"""Settings for the price of moves, with SpotToSpotConsolidation on; `strict` is `balanced` with it off."""


def measured(snapshot: Snapshot, ways: tuple[str, ...]) -> JsonObject:
    """Return the cluster's cost before, its proven minimum, and the result of each policy with budgets kept in every wave."""
    pass_seconds, first = _timed(lambda: DisruptionPass(snapshot))
    bound_seconds, bound = _timed(lambda: fleet_floor(first))
    return {
        "before": dollars(fleet_price(snapshot)),
        "bound": dollars(bound),
        "lookSeconds": pass_seconds,
        "boundSeconds": bound_seconds,
        "ways": {way: _way(snapshot, way, bound) for way in ways},
    }


def _way(snapshot: Snapshot, way: str, bound: int) -> JsonObject:
    unlimited = _under(snapshot, way, ignore_budgets=True)
    seconds, plan = _timed(lambda: disrupt(unlimited, proves=False))
    moves = Counter(move.pod for command in plan.commands for move in command.moves)
    return {
        "after": dollars(plan.cost.after),
        "ofBound": plan.cost.after / bound if bound else None,
        "moves": sum(moves.values()),
        "mostMovesOfAPod": max(moves.values(), default=0),
        "waves": max((command.wave for command in plan.commands), default=0),
        "wholeWaySeconds": seconds,
        **_program(unlimited),
        **_waves(_under(snapshot, way, ignore_budgets=False)),
    }


def _program(snapshot: Snapshot) -> JsonObject:
    """Return the cost of the keep-or-drain program with divisible nodes and pods, and the price of what it cannot change.

    The program weighs dollars against moves, so its cost exceeds the bound by the savings of the moves that it omits.
    """
    disruption_pass = DisruptionPass(snapshot)
    fleet = target_fleet(disruption_pass)
    if fleet is None:
        return {}
    search = TargetSearch(fleet, snapshot.options.moves, is_gated=spot_is_gated(disruption_pass))
    untouchable = (fleet_price(snapshot) - int(fleet.prices.sum())) * DOLLARS
    return {"untouchable": untouchable, "program": search.solved().cost + untouchable}


def _waves(snapshot: Snapshot) -> JsonObject:
    """Time the first run within budgets, and a second run with the target stored and its first wave in progress."""
    seconds, plan = _timed(lambda: disrupt(snapshot, proves=False))
    figures: JsonObject = {"firstLookSeconds": seconds, "firstWaveNodes": sum(len(c.nodes) for c in plan.commands)}
    rest = plan.target and after_commands(plan.target, plan.commands, snapshot.pods, {})
    if rest is None:
        return figures
    again_seconds, again = _timed(lambda: disrupt(_after(snapshot, plan), proves=False))
    return figures | {
        "storedBytes": len(encode(rest)),
        "nextLookSeconds": again_seconds,
        "nextLookReason": again.target_reason,
    }


def _after(snapshot: Snapshot, plan: DisruptionPlan) -> Snapshot:
    """Return the snapshot after the plan's commands, with the rest of its target."""
    rest = plan.target and after_commands(plan.target, plan.commands, snapshot.pods, {})
    return msgspec.structs.replace(carried_out(snapshot, *plan.commands), stored_target=rest)


def _under(snapshot: Snapshot, way: str, *, ignore_budgets: bool) -> Snapshot:
    gates = msgspec.structs.replace(snapshot.options.feature_gates, spot_to_spot_consolidation=way != "strict")
    options = msgspec.structs.replace(
        snapshot.options,
        feature_gates=gates,
        ignore_budgets=ignore_budgets,
        moves=way if way in ("thorough", "gentle") else "balanced",
    )
    return msgspec.structs.replace(snapshot, options=options)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return CPU seconds, and the result."""
    began = time.process_time()
    with collector_paused():
        outcome = work()
    return time.process_time() - began, outcome
