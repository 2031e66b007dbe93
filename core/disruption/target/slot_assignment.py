"""Assigns the final slots of a target, by group of equal pods.

Waves decide which pod takes which slot: equal pods are interchangeable.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

import msgspec

from core import labels
from core.disruption.consolidation.consolidation import FLEXIBLE_TYPES
from core.disruption.prices import ReplacementOptions
from core.disruption.target.realization import Realization
from core.disruption.target.target_fleet import TargetFleet
from core.model.plan import Move, PlannedClaim

_Taken = list[tuple[deque[str] | Counter[int], int, str]]


class SlotAssignment:
    """The free slots of a target.

    Attributes:
        claims: New nodes, launched or not.
        launched: Positions of the new nodes that earlier nodes needed.
    """

    def __init__(
        self, fleet: TargetFleet, found: Realization, claims: Sequence[PlannedClaim], *, is_gated: bool
    ) -> None:
        """Read the slots from the scheduler's answer.

        Args:
            fleet: The candidates.
            found: The answer.
            claims: Its new nodes under their final names, in the same order.
            is_gated: Whether pods of spot nodes must not take slots on new spot nodes.
        """
        self.claims = tuple(claims)
        self.launched: set[int] = set()
        self._wide = found.claims
        self._fleet = fleet
        self._is_gated = is_gated
        self._snapshot = fleet.planner.context.snapshot
        self._row_of = fleet.rows.row_of_pod
        own = set(found.results.displaced)
        existing = fleet.planner.context.existing_nodes
        changed = self._changed_nodes = {node.name for node in existing if node.is_recently_changed}
        self._rooms: dict[int, deque[str]] = {}
        self._rooms_of_changed: dict[int, deque[str]] = {}
        for binding in found.results.plan.bindings:
            if binding.pod in own:
                rooms = self._rooms_of_changed if binding.node in changed else self._rooms
                rooms.setdefault(self._row_of[binding.pod], deque()).append(binding.node)
        self._spot_left: Counter[int] = Counter()
        for node, stays in enumerate(found.keeps):
            if is_gated and not stays and fleet.rows.problem.is_spot[node]:
                self._spot_left.update(self._row_of[pod.key] for pod in fleet.rows.pods[node])
        self._on_new = [Counter(self._row_of[key] for key in claim.pods if key in own) for claim in found.claims]

    def take(self, node: int, wanted: Counter[int]) -> list[Move] | None:
        """Take final slots for all pods of a node, launching new nodes if needed; None, taking none, if there are too few.

        Args:
            node: The row of a node that goes.
            wanted: Item → how many of its pods this wave moves; it decides which new node is the most useful.
        """
        moves: list[Move] = []
        taken: _Taken = []
        launching: set[int] = set()
        for pod in sorted(self._fleet.rows.pods[node], key=lambda one: one.key):
            row = self._row_of[pod.key]
            place = self._existing(row, node, taken) or self._new(row, node, wanted, launching, taken)
            if place is None:
                self._restore(taken)
                return None
            moves.append(Move(pod.key, place))
        self.launched |= launching
        if self._is_gated and self._fleet.rows.problem.is_spot[node]:
            self._spot_left.subtract(self._row_of[move.pod] for move in moves)
        return moves

    def narrow_to(self, positions: Sequence[int], price: int | None, *, flexible: bool) -> bool:
        """Narrow new nodes to what may be launched for some leaving nodes; return whether each still has a type.

        Args:
            positions: The new nodes.
            price: The limit on their highest prices together; None for any price.
            flexible: Whether spot needs as many types as Karpenter requires to replace a single spot node (`FLEXIBLE_TYPES`).
        """
        claims = {position: self.claims[position] for position in positions}
        slack = None if price is None else price - sum(claim.price for claim in claims.values())
        if slack is not None and slack <= 0:
            return False
        for position, claim in claims.items():
            is_flexible = flexible and labels.SPOT in claim.capacity_types
            # Without a limit on the price, types beside the planned ones could cost more than the nodes that leave.
            is_wide = is_flexible and slack is not None
            options = self._spot_options(position) if is_wide else ReplacementOptions.of(claim, self._snapshot)
            if slack is not None:
                options = options.below(claim.price + slack // len(claims))
            if is_flexible:
                if len(options.types) < FLEXIBLE_TYPES:
                    return False
                options = options.first(max(FLEXIBLE_TYPES, options.needed_for_min_values()))
            if not options.types or options.price > claim.price or options.missing_values():
                return False
            claims[position] = options.planned()
        self.claims = tuple(claims.get(position, claim) for position, claim in enumerate(self.claims))
        return True

    def _spot_options(self, position: int) -> ReplacementOptions:
        """Return all spot types that a new node may have. The planned ones are fewer: their launch costs about as planned."""
        wide = msgspec.structs.replace(self._wide[position], name=self.claims[position].name)
        return ReplacementOptions.of(wide, self._snapshot).restricted_to(labels.SPOT)

    def release(self, node: int, moves: Sequence[Move], launched: Sequence[int]) -> None:
        """Release the slots that `take` gave a node, and the new nodes that it launched."""
        new = {claim.name: position for position, claim in enumerate(self.claims)}
        for move in reversed(moves):
            row = self._row_of[move.pod]
            if move.to in new:
                self._on_new[new[move.to]][row] += 1
            else:
                rooms = self._rooms_of_changed if move.to in self._changed_nodes else self._rooms
                rooms.setdefault(row, deque()).appendleft(move.to)
        self.launched.difference_update(launched)
        if self._is_gated and self._fleet.rows.problem.is_spot[node]:
            self._spot_left.update(self._row_of[move.pod] for move in moves)

    def open_slots(self) -> Counter[int]:
        """Return item → slots on nodes that exist or were launched before."""
        found = Counter({row: len(slots) for row, slots in self._rooms.items()})
        for position in sorted(self.launched):
            found.update(self._on_new[position])
        return found

    def _existing(self, row: int, node: int, taken: _Taken) -> str | None:
        rooms = self._rooms.get(row)
        # Pods of spot nodes have no other place, so as many slots as they need are reserved for them.
        is_kept = not self._fleet.rows.problem.is_spot[node] and rooms and len(rooms) <= self._spot_left[row]
        pools = [] if is_kept else [rooms]
        if self._fleet.must_go[node]:
            pools.insert(0, self._rooms_of_changed.get(row))
        for slots in pools:
            if slots:
                name = slots.popleft()
                taken.append((slots, row, name))
                return name
        return None

    def _new(
        self,
        row: int,
        node: int,
        wanted: Counter[int],
        launching: set[int],
        taken: _Taken,
    ) -> str | None:
        usable = [
            position
            for position, slots in enumerate(self._on_new)
            if slots[row] and self._admits(self.claims[position], node)
        ]
        if not usable:
            return None
        open_ = [position for position in usable if position in self.launched or position in launching]
        best = open_[0] if open_ else max(usable, key=lambda position: (self._use(position, wanted), -position))
        launching.add(best)
        self._on_new[best][row] -= 1
        taken.append((self._on_new[best], row, ""))
        return self.claims[best].name

    def _use(self, position: int, wanted: Counter[int]) -> float:
        """Return how many pods of the wave a new node would take, relative to its price."""
        return (self._on_new[position] & wanted).total() / max(self.claims[position].price, 1)

    def _admits(self, claim: PlannedClaim, node: int) -> bool:
        is_spot = bool(self._fleet.rows.problem.is_spot[node])
        return not (self._is_gated and is_spot and labels.SPOT in claim.capacity_types)

    def _restore(self, taken: _Taken) -> None:
        for slots, row, name in reversed(taken):
            if isinstance(slots, deque):
                slots.appendleft(name)
            else:
                slots[row] += 1
