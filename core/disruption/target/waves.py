"""Divides a target into waves: nodes that may go together and whose pods take only final slots, so that no pod moves twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.realization import Realization
from core.disruption.target.slot_assignment import SlotAssignment
from core.disruption.target.target_fleet import TargetFleet
from core.disruption.target.target_refusals import NO_LIMITS, NO_SLOTS, TOO_DEAR, WaveObjection
from core.disruption.target.target_search import SMALL
from core.disruption.target.wave_budgets import WaveBudgets
from core.disruption.target.wave_commands import components, wave_commands
from core.model.plan import Command, Move
from core.packing.problem import Floats

WAVES_MAX: Final = 400
"""The most waves of one target; a budget of one node lets one go at a time."""

TRIES_MAX: Final = 40
"""The most tries to make a wave of other nodes, because those before did not pay: in a large fleet, each orders all nodes."""

PARTNERS_MAX: Final = 3
"""The most partners: nodes that join others which alone do not pay for their new nodes, or a spot node with few types."""

OPEN_SLOT: Final = 4_000_000
"""Bonus in the ranking of nodes for each slot that is open already, in nano-dollars per hour."""


@dataclass(slots=True)
class Wave:
    """Nodes that go together.

    Attributes:
        moves: Row of a node → where its pods go.
        launched: Positions of the new nodes that it launches.
        partners: Row of a node that needs no new node → row of one that does: they go in one command.
    """

    moves: dict[int, list[Move]] = field(default_factory=dict)
    launched: list[int] = field(default_factory=list)
    partners: dict[int, int] = field(default_factory=dict)


class WavePlanner:
    """Plans the waves of one target.

    Attributes:
        objections: Node of the target that the last wave leaves out → why, budgets aside.
    """

    def __init__(
        self,
        disruption_pass: DisruptionPass,
        fleet: TargetFleet,
        found: Realization,
        slots: SlotAssignment,
        worth: Floats,
    ) -> None:
        """Prepare a target.

        Args:
            disruption_pass: The budgets and the commands decided so far.
            fleet: The candidates.
            found: Where the drained pods go.
            slots: The slots for these pods.
            worth: [node], its price less the cost of its pods elsewhere, in nano-dollars per hour.
        """
        self._fleet = fleet
        self._slots = slots
        self._budgets = WaveBudgets(disruption_pass)
        self.objections: dict[str, WaveObjection] = {}
        self._left = [node for node, stays in enumerate(found.keeps) if not stays]
        self._worth = worth
        self._needs = [Counter(fleet.rows.row_of_pod[pod.key] for pod in pods) for pods in fleet.rows.pods]

    def commands(
        self, *, waves_max: int = WAVES_MAX, must_pay: bool = False, together: Collection[str] = ()
    ) -> list[Command]:
        """Return the commands of this many waves, in order.

        Args:
            waves_max: The most waves.
            must_pay: Whether nodes that share new nodes must pay for them by themselves; else those of later waves may, too.
            together: Nodes that are the first wave, however few NodePools' budgets let go at one time.
        """
        found: list[Command] = []
        for number in range(1, waves_max + 1):
            wave = self._paid(must_pay=must_pay or waves_max == 1, only=together if number == 1 else ())
            if not wave.moves:
                break
            self._left = [node for node in self._left if node not in wave.moves]
            used = self._used(wave)
            found += wave_commands(self._fleet, self._slots.claims, wave.moves, used, number)
        return found

    def _paid(self, *, must_pay: bool, only: Collection[str]) -> Wave:
        """Return the next wave; if its nodes do not pay for their new nodes, one of others. It is empty if there is none."""
        unpaid: dict[str, WaveObjection] = {}
        self._budgets.begin()
        for _ in range(TRIES_MAX):
            wave = self._next(besides=unpaid, only=only)
            planned = set(wave.moves)
            self._remove_unpaid(wave, must_pay=must_pay)
            if wave.moves or not planned:
                break
            unpaid |= {name: why for name, why in self.objections.items() if why == TOO_DEAR}
            self._budgets.begin_again()
        self.objections |= unpaid
        self._budgets.end()
        return wave

    def _next(self, *, besides: Collection[str], only: Collection[str]) -> Wave:
        """Return nodes in the order of their saving per move, as many as all budgets let go together, without `besides`.

        If `only` names any, NodePools' budgets let all of these go, and no others.
        """
        self.objections.clear()
        wave, wanted = Wave(), Counter[int]()
        open_slots = self._slots.open_slots()
        order = sorted(self._left, key=lambda node: (self._rank(node, open_slots), self._fleet.candidates[node].name))
        for node in order:
            candidate = self._fleet.candidates[node]
            if candidate.name in besides or self._fleet.held[node] or (only and candidate.name not in only):
                continue
            if not self._budgets.admits(candidate, self._fleet.reason(node), counts_nodes=not only):
                continue
            before = set(self._slots.launched)
            moves = self._slots.take(node, wanted + self._needs[node])
            if moves is None:
                self.objections[candidate.name] = NO_SLOTS
                continue
            launched = sorted(self._slots.launched - before)
            if launched and not self._budgets.has_room_for([self._slots.claims[i] for i in launched], candidate):
                self._slots.release(node, moves, launched)
                self.objections[candidate.name] = NO_LIMITS
                continue
            wanted += self._needs[node]
            self._budgets.take(candidate)
            for position in launched:
                self._budgets.launch(self._slots.claims[position])
            wave.moves[node] = moves
            wave.launched += launched
        return wave

    def _remove_unpaid(self, wave: Wave, *, must_pay: bool) -> None:
        """Remove nodes from the wave that its new nodes must not replace (Karpenter's price rules).

        A new node that a drifted node needs is launched at any price; the others of its group are not.

        Args:
            wave: The wave.
            must_pay: Whether nodes that share new nodes must pay for them by themselves.
        """
        problem, used = self._fleet.rows.problem, self._used(wave)
        alone = [node for node, positions in used.items() if not positions and not problem.must_go[node]]
        spare = sorted(alone, key=lambda node: (-int(problem.prices[node]), node))
        for together, launched in components(used):
            drifted = {position for node in together if problem.must_go[node] for position in used[node]}
            nodes = [node for node in together if not problem.must_go[node]]
            positions = [position for position in launched if position not in drifted]
            if not positions:
                continue
            group = list(nodes)
            while not (is_paid := self._may_replace(group, positions, must_pay=must_pay)) and spare:
                if len(group) - len(nodes) >= PARTNERS_MAX:
                    break
                group.append(spare.pop(0))
            partners = group[len(nodes) :]
            if is_paid:
                wave.partners |= dict.fromkeys(partners, nodes[0])
                continue
            spare = [*partners, *spare]
            for node in reversed(nodes):
                self._slots.release(node, wave.moves.pop(node), positions)
                self._budgets.release(self._fleet.candidates[node])
                self.objections[self._fleet.candidates[node].name] = TOO_DEAR
            for position in positions:
                self._budgets.cancel(self._slots.claims[position])
            wave.launched = [position for position in wave.launched if position not in positions]

    def _may_replace(self, nodes: Sequence[int], positions: Sequence[int], *, must_pay: bool) -> bool:
        """Whether these new nodes may replace these nodes; narrows them to what may be launched."""
        claims, problem = self._slots.claims, self._fleet.rows.problem
        price = sum(int(problem.prices[node]) for node in nodes)
        planned = sum(claims[position].price for position in positions)
        pays = must_pay or price > planned
        is_lone_spot = len(nodes) == 1 and bool(problem.is_spot[nodes[0]])
        if self._slots.narrow_to(positions, price if pays else None, flexible=is_lone_spot):
            return True
        # A large fleet saves by a wide margin as a whole, and each new node costs at most `WORST_RATIO` times its price.
        is_large, is_planned = len(self._fleet.candidates) > SMALL, price > planned or not must_pay
        return is_large and is_planned and self._slots.narrow_to(positions, None, flexible=is_lone_spot)

    def _used(self, wave: Wave) -> dict[int, list[int]]:
        """Return row of each node of the wave → positions of the new nodes that it or its partner needs."""
        claims = self._slots.claims
        position_of = {claims[position].name: position for position in wave.launched}
        used = {n: sorted({position_of[m.to] for m in found if m.to in position_of}) for n, found in wave.moves.items()}
        return {node: positions or used.get(wave.partners.get(node, node), []) for node, positions in used.items()}

    def _rank(self, node: int, open_slots: Counter[int]) -> tuple[int, float]:
        """Rank nodes by when they drifted, then by the saving per move, where open slots already count as saved."""
        if self._fleet.must_go[node]:
            since = self._fleet.candidates[node].drifted_at
            return 0, since.timestamp() if since is not None else float("inf")
        needs = self._needs[node]
        worth = float(self._worth[node]) + OPEN_SLOT * (needs & open_slots).total()
        return 1, -worth / (needs.total() + 1)
