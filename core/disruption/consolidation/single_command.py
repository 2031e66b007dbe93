"""Finds one command by Karpenter's methods for a small fleet whose target has no part that may go now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.consolidation import consolidated
from core.disruption.consolidation.payback import WORTHWHILE
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.leaving_nodes import leaving_later
from core.model.plan import Command, PlannedClaim
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason

_BY_CHOICE: Final = TerminationReason.UNDERUTILIZED


def single_command(
    disruption_pass: DisruptionPass,
    candidates: Sequence[Candidate],
    prices: Mapping[str, int],
    has_room_for: Callable[[Sequence[PlannedClaim], Candidate], bool],
) -> list[Command]:
    """Return the command that saves the most beyond the price of its moves; none if no command does.

    It deletes or replaces one node, or replaces several by one. A new node is only launched if that saves a share of the cost
    of the nodes that go (`WORTHWHILE`).

    Args:
        disruption_pass: The pass.
        candidates: The nodes that may go.
        prices: Node → price of moving its pods, in nano-dollars per hour.
        has_room_for: Whether the limits of NodePools have room for new nodes beside a candidate that goes for them.
    """
    closed = leaving_later(disruption_pass)
    best: tuple[int, Command] | None = None
    for going in _choices(disruption_pass, candidates):
        method = "multi" if len(going) > 1 else "single"
        command = consolidated(going, disruption_pass, method=method)
        if isinstance(command, Refusal) or not closed.isdisjoint(move.to for move in command.moves):
            continue
        if command.replacements:
            saves_too_little = command.savings * WORTHWHILE < sum(candidate.price for candidate in going)
            if saves_too_little or not any(has_room_for(command.replacements, candidate) for candidate in going):
                continue
        net = command.savings - sum(prices[candidate.name] for candidate in going)
        if net > (best[0] if best is not None else 0):
            best = net, command
    return [best[1]] if best is not None else []


def _choices(disruption_pass: DisruptionPass, candidates: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
    """Yield groups of nodes that budgets let go together: the first ones by price for disruption, then each node alone.

    They end where the time of the pass does.
    """
    ordered = sorted(candidates, key=lambda candidate: (-candidate.savings_ratio, candidate.name))
    together = disruption_pass.budgets.within(ordered, _BY_CHOICE)
    groups = [together[:count] for count in range(len(together), 1, -1)]
    alone = ([candidate] for candidate in ordered if disruption_pass.budgets.allow([candidate], _BY_CHOICE))
    for group in chain(groups, alone):
        if disruption_pass.is_exhausted:
            return
        yield group
