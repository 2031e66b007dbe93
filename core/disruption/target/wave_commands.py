"""Groups a wave into commands: nodes that share a new node go together, the others in small groups that fail separately."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from core.disruption.candidates.candidate import Candidate
from core.disruption.target.target_fleet import TargetFleet
from core.model.plan import Command, Move, PlannedClaim
from core.model.values import resources
from core.reasons.termination import TerminationReason

DELETED_TOGETHER: Final = {TerminationReason.DRIFTED: 1, TerminationReason.UNDERUTILIZED: 10}
"""Most nodes of a command that launches nothing: if one of them may no longer go, all of them are decided again."""


def wave_commands(
    fleet: TargetFleet,
    claims: Sequence[PlannedClaim],
    moves: Mapping[int, Sequence[Move]],
    used: Mapping[int, Sequence[int]],
    wave: int,
) -> list[Command]:
    """Return the commands: those for drift first, as budgets were counted, and of each reason those with new nodes first.

    Args:
        fleet: The candidates.
        claims: The target's new nodes.
        moves: Row of a node that goes → where its pods go.
        used: Row of a node that goes → positions of the new nodes that this wave launches for it.
        wave: Its number.
    """
    found: list[Command] = []
    # A new node that a command of another reason launches is only awaited.
    groups = [(nodes, positions, set(positions)) for nodes, positions in components(used)]
    for reason in (TerminationReason.DRIFTED, TerminationReason.UNDERUTILIZED):
        for nodes, positions, waiting in groups:
            own = [node for node in nodes if fleet.reason(node) == reason]
            for part in _parts(own, len(own) if positions else DELETED_TOGETHER[reason]):
                launching = sorted(waiting.intersection(position for node in part for position in used[node]))
                found.append(_command(fleet, [claims[position] for position in launching], part, moves, wave))
                waiting.difference_update(launching)
    return found


def components(used: Mapping[int, Sequence[int]]) -> Iterator[tuple[list[int], list[int]]]:
    """Return the groups of nodes that share new nodes, with these; then all nodes that use none."""
    left = {node: set(positions) for node, positions in used.items() if positions}
    while left:
        first = next(iter(left))
        nodes, positions = [first], set(left.pop(first))
        while joining := [node for node, own in left.items() if own & positions]:
            for node in joining:
                positions |= left.pop(node)
            nodes += joining
        yield nodes, sorted(positions)
    alone = [node for node, positions in used.items() if not positions]
    if alone:
        yield alone, []


def _parts(nodes: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(nodes), max(size, 1)):
        yield nodes[start : start + size]


def _command(
    fleet: TargetFleet,
    claims: Sequence[PlannedClaim],
    nodes: Sequence[int],
    moves: Mapping[int, Sequence[Move]],
    wave: int,
) -> Command:
    ordered = sorted(nodes, key=lambda node: fleet.candidates[node].name)
    candidates = [fleet.candidates[node] for node in ordered]
    arriving: dict[str, list[str]] = {}
    for node in nodes:
        for move in moves[node]:
            arriving.setdefault(move.to, []).append(move.pod)
    return Command(
        reason=fleet.reason(nodes[0]),
        method="drift" if fleet.must_go[nodes[0]] else "repack",
        nodes=tuple(candidate.name for candidate in candidates),
        claims=tuple(candidate.claim.name for candidate in candidates),
        replacements=tuple(_opened(claim, arriving.get(claim.name, []), fleet) for claim in claims),
        moves=tuple(sorted(move for node in ordered for move in moves[node])),
        savings=sum(candidate.price for candidate in candidates) - sum(claim.price for claim in claims),
        wave=wave,
        awaits=_awaits(claims, candidates, [moves[node] for node in ordered]),
    )


def _awaits(
    claims: Sequence[PlannedClaim], candidates: Sequence[Candidate], moves: Sequence[Sequence[Move]]
) -> dict[str, tuple[str, ...]]:
    """Return node → the command's new nodes to which its pods go; empty if the command has none."""
    launched = {claim.name for claim in claims}
    if not launched:
        return {}
    return {
        candidate.name: tuple(sorted({move.to for move in own} & launched))
        for candidate, own in zip(candidates, moves, strict=True)
    }


def _opened(claim: PlannedClaim, arriving: Sequence[str], fleet: TargetFleet) -> PlannedClaim:
    """Return a new node with the pods of the wave that launches it. Its types also have room for pods of later waves."""
    planned = {key for key in claim.pods if key in fleet.rows.row_of_pod}
    requested = dict(claim.resources)
    for key in sorted(planned.difference(arriving)):
        requested = resources.subtract(requested, _requests(fleet, key))
    for key in sorted(set(arriving) - planned):
        requested = resources.add(requested, _requests(fleet, key))
    pods = sorted({*arriving, *(key for key in claim.pods if key not in planned)})
    return msgspec.structs.replace(claim, pods=tuple(pods), resources=requested)


def _requests(fleet: TargetFleet, key: str) -> dict[str, int]:
    """Return what a pod requests; equal for all pods of its item."""
    rows = fleet.rows
    return rows.amounts(rows.row_of_pod[key])
