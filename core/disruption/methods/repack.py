"""Repacking: nodes become several others that together cost less. Karpenter has no such move.

The scheduler fills large nodes before it opens small ones, so splitting a node or regrouping several is found by asking it
again with the dearest types left out. Only what Karpenter's moves leave over is repacked: they disturb fewer pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from core.disruption.candidates.balanced_policy import rejecting_pool
from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.consolidation import affordable, unplaced
from core.disruption.consolidation.eligibility import underutilized
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command, PlannedClaim
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason

GROUPS_MAX: Final = 24
"""How many groups of nodes are tried for one command."""

PRICE_CAPS: Final = (1, 2, 4)
"""The dearest type tried is below the dearest leaving node's price divided by each of these."""

WORTHWHILE: Final = 20
"""A repacking must save at least one part in so many of what its nodes cost: each of their pods has to move."""


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """The repacking that saves the most, ties by the names of its nodes."""
    found: list[Command] = []
    for group in _groups(
        disruption_pass.within_budgets(underutilized(disruption_pass), TerminationReason.UNDERUTILIZED)
    ):
        for cap in _caps(group):
            if disruption_pass.is_exhausted:
                break
            command = _repacked(group, disruption_pass, below=cap)
            if command is not None:
                found.append(command)
    best = min(found, key=lambda command: (-command.savings, command.nodes), default=None)
    return [best] if best is not None else []


def _groups(candidates: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
    """All of them, the better half, quarter and so on, then each of the dearest alone."""
    count, tried = len(candidates), 0
    while count > 1 and tried < GROUPS_MAX:
        yield candidates[:count]
        count, tried = count // 2, tried + 1
    yield from ([c] for c in sorted(candidates, key=lambda c: (-c.price, c.name))[: GROUPS_MAX - tried])


def _caps(group: Sequence[Candidate]) -> list[int | None]:
    dearest = max(c.price for c in group)
    caps: list[int | None] = [dearest // part for part in PRICE_CAPS]
    return [None, *caps] if len(group) > 1 else caps


def _repacked(group: Sequence[Candidate], disruption_pass: DisruptionPass, *, below: int | None) -> Command | None:
    simulation = disruption_pass.simulate(group, consolidation=True, below=below)
    price = sum(c.price for c in group)
    slack = price - sum(claim.price for claim in simulation.claims)
    if unplaced(simulation) is not None or not simulation.claims or slack * WORTHWHILE < price:
        return None
    replacements: list[PlannedClaim] = []
    for claim in simulation.claims:
        narrowed = affordable(claim, claim.price + slack // len(simulation.claims), group, disruption_pass)
        if isinstance(narrowed, Refusal):
            return None
        replacements.append(narrowed)
    savings = price - sum(claim.price for claim in replacements)
    if rejecting_pool(group, savings, disruption_pass.totals):
        return None
    return Command(
        reason=TerminationReason.UNDERUTILIZED,
        method="repack",
        nodes=tuple(c.name for c in group),
        claims=tuple(c.claim.name for c in group),
        replacements=tuple(replacements),
        moves=simulation.moves,
        savings=savings,
    )
