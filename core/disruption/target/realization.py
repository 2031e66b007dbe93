"""Evaluates a choice of nodes to keep: places every drained pod by all rules, and computes the cost."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import numpy as np

from core import labels
from core.disruption.consolidation import FLEXIBLE_TYPES
from core.disruption.prices import ReplacementOptions
from core.disruption.target.fleet import TargetFleet
from core.disruption.target.stored import PodKinds
from core.model.plan import Move, PlannedClaim, StoredTarget
from core.packing.fleet_target import NO_GROUP, SlotFilling, covering
from core.packing.problem import Bools, Floats, Ints
from core.packing.settings import DEFAULT_SETTINGS, SearchBudget
from core.scheduling.planner import DrainedFleet
from core.scheduling.replanning import Drains
from core.scheduling.results import SchedulingResults

# The intended places for the pods of leaving nodes: from the keep-or-drain program, or from a stored target.


Slots = dict[int, list[tuple[int, int]]]
"""Pod group → (position of a node, number of the group's pods for it)."""


class PlannedSlots(Protocol):
    """The intended places for the pods of a choice of nodes."""

    def slots(self, keeps: Bools) -> Slots:
        """Return places on existing nodes for pods of the nodes that are not kept."""
        ...

    @property
    def new_nodes(self) -> Sequence[Mapping[str, int]]:
        """Return how many pods of which groups share each new node; empty if new nodes are to be packed afresh."""
        ...


class ProgramSlots:
    """The places that the keep-or-drain program found."""

    new_nodes: Sequence[Mapping[str, int]] = ()

    def __init__(self, fleet: TargetFleet, into: Floats, machines: float, *, is_gated: bool) -> None:
        """Take over a solution.

        Args:
            fleet: The candidates.
            into: [item, group], pods that move into the free room of a node group.
            machines: New machines.
            is_gated: Whether pods of spot nodes may only go to existing nodes.
        """
        self._fleet = fleet
        self._into = into
        self._machines = machines
        self._is_gated = is_gated

    def slots(self, keeps: Bools) -> Slots:
        """Round the program's shares to whole pods, and put them on the nodes that suit them best."""
        rows = self._fleet.rows
        problem, rooms = rows.problem, rows.rooms
        rooms.groups[rows.positions(~keeps)] = NO_GROUP
        drained: Ints = problem.loads[~keeps].sum(axis=0)
        bound: Ints = problem.loads[~keeps & problem.is_spot].sum(axis=0) if self._is_gated else drained * 0
        by_row: Slots = {}
        for slot in SlotFilling(problem, rooms, drained, bound).slots(self._into, self._machines):
            by_row.setdefault(int(rows.items[slot.item].index), []).append((slot.node, slot.pods))
        return by_row


class StoredTargetSlots:
    """The places of a stored target, by kinds.

    Here, pods of one kind may be of several groups, and a group's of several kinds.
    """

    def __init__(self, fleet: TargetFleet, stored: StoredTarget) -> None:
        self._fleet = fleet
        self._stored = stored
        self._kinds = PodKinds()
        self.new_nodes: Sequence[Mapping[str, int]] = [new.pods for new in stored.new_nodes]

    def slots(self, keeps: Bools) -> Slots:
        """Distribute the stored places to the groups of each kind in turn."""
        rows, positions = self._fleet.rows, self._fleet.planner.context.positions
        waiting: dict[str, Counter[int]] = {}
        for pods, stays in zip(rows.pods, keeps, strict=True):
            for pod in () if stays else pods:
                waiting.setdefault(self._kinds.of(pod), Counter())[rows.row_of_pod[pod.key]] += 1
        suits, going = rows.rooms.suits, set(rows.positions(~keeps))
        by_row: Slots = {}
        for slot in self._stored.slots:
            node, pods_left = positions.get(slot.node), slot.pods
            if node is None or node in going:
                continue
            groups = waiting.get(slot.kind, Counter())
            for item in sorted(groups):
                taken = min(pods_left, groups[item]) if suits[item, node] else 0
                if taken:
                    groups[item] -= taken
                    pods_left -= taken
                    by_row.setdefault(int(rows.items[item].index), []).append((node, taken))
        return by_row


REPAIRS_MAX: Final = 12
"""The most rounds in which further nodes are kept because their pods find no place."""

ROUNDS_WITH_ROOM: Final = 6
"""In so many of them, further nodes are kept for no pods that the free room of others seems to take."""

RELEASE_FAILURES_MAX: Final = 7
"""Spot nodes that stay are tried without until so many in a row could not go."""


@dataclass(frozen=True, slots=True, eq=False)
class Realization:
    """The result of the scheduler.

    Attributes:
        keeps: [node], whether it stays.
        results: Where the drained pods go.
        claims: New nodes that they need.
        cost: Nano-dollars per hour of the nodes that stay and the new ones.
        moves: The price of the moves, in the same unit.
        disruption: What it costs to disrupt the nodes that go, see `Candidate.cost`.
        unmoved: How many nodes stay although they must go.
        displaces: Whether pods that wait anyway would need more expensive new nodes than without the move.
    """

    keeps: Bools
    results: SchedulingResults
    claims: tuple[PlannedClaim, ...]
    cost: int
    moves: int
    disruption: int
    unmoved: int
    displaces: bool

    @property
    def goal(self) -> tuple[int, bool, int, int]:
        """The objective to minimize: cost and moves, after all nodes that must go; ties by the least disruption."""
        return self.unmoved, self.displaces, self.cost + self.moves, self.disruption


class Realizations:
    """Evaluates choices of nodes with the scheduler.

    Attributes:
        asked: Number of evaluations.
        unplaced_items: Items with a pod that had no place in some choice.
        gated: [node], whether it was kept because spot is not replaced by spot.
    """

    def __init__(self, fleet: TargetFleet, *, is_gated: bool, keep_discount: int) -> None:
        """Prepare evaluations of one fleet.

        Args:
            fleet: The candidates.
            is_gated: Whether pods of spot nodes may only go to existing nodes.
            keep_discount: Discount on running nodes compared to new ones, in thousandths.
        """
        self._fleet = fleet
        self._is_gated = is_gated
        self._keep_discount = keep_discount
        self.asked = 0
        self.unplaced_items: set[int] = set()
        self.gated: Bools = np.zeros(len(fleet.candidates), dtype=bool)
        self._disruption = np.array([candidate.cost for candidate in fleet.candidates], dtype=np.int64)

    def of(
        self, keeps: Bools, planned: PlannedSlots | None, budget: SearchBudget | None, *, releases: int = 0
    ) -> Realization:
        """Evaluate the choice, keeping more nodes where pods would find no place; pack the new nodes at the end.

        `releases`: how many spot nodes of the choice are tried without, if others have to stay for the pods of spot nodes.
        """
        keeps = keeps.copy()
        for number in range(REPAIRS_MAX):
            drained = self._drained(keeps, planned)
            realization = self._realization(keeps, drained.results)
            missing, may_cover = self._missing(realization)
            if not missing.any():
                if number and self._is_gated:
                    realization, drained = self._released(realization, drained, planned, budget, releases)
                return self._packed(realization, drained, planned, budget)
            kept = covering(
                self._fleet.rows.problem,
                missing,
                may_cover,
                counts_room=number < ROUNDS_WITH_ROOM,
                settings=DEFAULT_SETTINGS.target,
            )
            if not kept.any():
                break
            keeps |= kept
            if not realization.results.plan.unschedulable:
                self.gated |= kept
        nothing = np.ones_like(keeps)
        return self._realization(nothing, self._drained(nothing, None).results)

    def _released(
        self,
        best: Realization,
        drained: DrainedFleet[SchedulingResults],
        planned: PlannedSlots | None,
        budget: SearchBudget | None,
        releases: int,
    ) -> tuple[Realization, DrainedFleet[SchedulingResults]]:
        """Return the best choice that lacks some of the spot nodes, the most expensive first.

        The nodes that stayed after all may have room for the pods of nodes that the program kept
        (docs/engineering/handbook/fleet-target.md).
        """
        problem, failures = self._fleet.rows.problem, 0
        may_go = best.keeps & problem.is_spot & ~self._fleet.must_go
        by_price = np.argsort(-np.where(may_go, problem.prices, -1), kind="stable")
        for node in by_price[: min(releases, int(may_go.sum()))]:
            if failures >= RELEASE_FAILURES_MAX or (budget is not None and budget.is_spent):
                break
            keeps = best.keeps.copy()
            keeps[node] = False
            tried = self._drained(keeps, planned)
            without = self._realization(keeps, tried.results)
            if without.goal < best.goal and not self._missing(without)[0].any():
                best, drained, failures = without, tried, 0
            else:
                failures += 1
        return best, drained

    def _drained(self, keeps: Bools, planned: PlannedSlots | None) -> DrainedFleet[SchedulingResults]:
        """Return the scheduler's result for one choice."""
        fleet, rows = self._fleet, self._fleet.rows
        self.asked += 1
        goes = ~keeps
        drains = Drains(
            leaving=frozenset(rows.positions(goes & ~fleet.must_go)),
            mandatory=frozenset(rows.positions(goes & fleet.must_go)),
            closed=fleet.closed,
            slots=planned.slots(keeps) if planned is not None and goes.any() else {},
        )
        return fleet.planner.drained(drains)

    def _packed(
        self,
        realization: Realization,
        drained: DrainedFleet[SchedulingResults],
        planned: PlannedSlots | None,
        budget: SearchBudget | None,
    ) -> Realization:
        """Return the result with the intended new nodes, or else with new nodes packed within the budget."""
        # The room of capacity buffers stays on the nodes that the scheduler enlarged for it.
        if not realization.claims or self._fleet.has_buffers:
            return realization
        if planned is not None and planned.new_nodes:
            return self._realization(realization.keeps, drained.regrouped(planned.new_nodes, PodKinds().of))
        return realization if budget is None else self._realization(realization.keeps, drained.packed(budget))

    def _realization(self, keeps: Bools, results: SchedulingResults) -> Realization:
        fleet, goes = self._fleet, ~keeps
        displaced = set(results.displaced)
        claims = tuple(claim for claim in results.plan.claims if displaced.intersection(claim.pods))
        kept = int(fleet.prices[keeps].sum()) * (1000 - self._keep_discount) // 1000
        cost = kept + sum(claim.price for claim in claims)
        others = results.plan.cost.hourly - sum(claim.price for claim in claims)
        return Realization(
            keeps=keeps.copy(),
            results=results,
            claims=claims,
            cost=cost,
            moves=int(fleet.rows.problem.move_prices[goes].sum()),
            disruption=int(self._disruption[goes].sum()),
            unmoved=int((keeps & fleet.must_go).sum()),
            displaces=others > fleet.waiting_price,
        )

    def _missing(self, realization: Realization) -> tuple[Ints, Bools]:
        """Return [item], pods without a valid place, and [node], whether keeping the node would help."""
        fleet, rows = self._fleet, self._fleet.rows
        loads = rows.problem.loads
        unschedulable = [pod for pod in realization.results.plan.unschedulable if pod.pod not in fleet.waiting]
        unplaced, drained = self._rows_of(pod.pod for pod in unschedulable), ~realization.keeps
        self.unplaced_items.update(np.flatnonzero(unplaced).tolist())
        if unplaced.any() or not self._is_gated:
            return unplaced, drained
        on_new = self._rows_of(
            key for claim in realization.claims if "spot" in claim.capacity_types for key in claim.pods
        )
        is_spot = rows.problem.is_spot
        from_on_demand = loads[drained & ~is_spot].sum(axis=0)
        return np.maximum(on_new - from_on_demand, 0), drained & is_spot

    def _rows_of(self, keys: Iterable[str]) -> Ints:
        rows = self._fleet.rows
        counts = Counter(rows.row_of_pod[key] for key in keys if key in rows.row_of_pod)
        row_counts = np.zeros(len(rows.items), dtype=np.int64)
        for row, count in counts.items():
            row_counts[row] = count
        return row_counts


# Assigns the final slots of a target, by group of equal pods.
#
# Waves decide which pod takes which slot: equal pods are interchangeable.


_Taken = list[tuple[deque[str] | Counter[int], int, str]]


class SlotAssignment:
    """The free slots of a target.

    Attributes:
        claims: New nodes, launched or not.
        launched: Positions of the new nodes that earlier nodes needed.
    """

    def __init__(
        self, fleet: TargetFleet, realization: Realization, claims: Sequence[PlannedClaim], *, is_gated: bool
    ) -> None:
        """Read the slots from the scheduler's answer.

        Args:
            fleet: The candidates.
            realization: The answer.
            claims: Its new nodes under their final names, in the same order.
            is_gated: Whether pods of spot nodes must not take slots on new spot nodes.
        """
        self.claims = tuple(claims)
        self.launched: set[int] = set()
        self._wide = realization.claims
        self._fleet = fleet
        self._is_gated = is_gated
        self._snapshot = fleet.planner.context.snapshot
        self._row_of = fleet.rows.row_of_pod
        displaced = set(realization.results.displaced)
        existing = fleet.planner.context.existing_nodes
        changed = self._changed_nodes = {node.name for node in existing if node.takes_no_moves}
        self._rooms: dict[int, deque[str]] = {}
        self._rooms_of_changed: dict[int, deque[str]] = {}
        for binding in realization.results.plan.bindings:
            if binding.pod in displaced:
                rooms = self._rooms_of_changed if binding.node in changed else self._rooms
                rooms.setdefault(self._row_of[binding.pod], deque()).append(binding.node)
        self._spot_left: Counter[int] = Counter()
        for node, stays in enumerate(realization.keeps):
            if is_gated and not stays and fleet.rows.problem.is_spot[node]:
                self._spot_left.update(self._row_of[pod.key] for pod in fleet.rows.pods[node])
        self._on_new = [
            Counter(self._row_of[key] for key in claim.pods if key in displaced) for claim in realization.claims
        ]

    def take(self, node: int, wanted: Counter[int]) -> list[Move] | None:
        """Take final slots for all pods of a node, launching new nodes if needed; None, taking none, if there are too few.

        Args:
            node: The row of a node that goes.
            wanted: Item → how many of its pods this wave moves; it decides which new node is the most useful.
        """
        moves: list[Move] = []
        taken: _Taken = []
        launching: set[int] = set()
        for pod in sorted(self._fleet.rows.pods[node], key=lambda pod: pod.key):
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
        places = Counter({row: len(slots) for row, slots in self._rooms.items()})
        for position in sorted(self.launched):
            places.update(self._on_new[position])
        return places

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
