"""Divides a target into waves. The nodes of a wave leave together, and their pods move to final slots: no pod moves twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from core.disruption.candidate import Candidate, PoolTotals, rejecting_pool
from core.disruption.consolidation import ACROSS_DOMAINS, price_of_turns, with_domain_change
from core.disruption.consolidation_nodes import WORTHWHILE
from core.disruption.disruption_pass import DisruptionPass, short_lived
from core.disruption.slot_check import slot_is_denied
from core.disruption.target.fleet import TargetFleet, WaveBudgets
from core.disruption.target.realization import Realization, SlotAssignment
from core.disruption.target.search import SMALL
from core.model.plan import Command, Move, PlannedClaim
from core.model.values import quantity
from core.packing.problem import Floats
from core.pod_disruption_budgets import BudgetKey
from core.reasons.code import Refusal, TerminationReason
from core.reasons.nodes import NO_LIMITS, NO_SAVING, NO_SLOTS, SLOT_CHANGED, SLOT_DENIED, TOO_DEAR, TargetBelowMoves

# Checks the commands of a target: those of a small fleet in order, each against the snapshot that the earlier ones leave.
#
# A target is valid as a whole and every slot is final. This check adds the rules for single commands: Karpenter's, and those
# for a cluster that already violates its own rules. For a small fleet it takes milliseconds.


def valid_commands(
    commands: Sequence[Command], disruption_pass: DisruptionPass, *, worthwhile: int
) -> tuple[list[Command], dict[str, Refusal]]:
    """Return the commands that are valid individually, and node → why it does not go for each node of the others.

    A command that needs a new node of an invalid one is invalid too.

    Args:
        commands: In their order.
        disruption_pass: The pass in which they were decided; it is not changed.
        worthwhile: Nodes are replaced only if that saves at least 1/`worthwhile` of their cost.
    """
    fresh = DisruptionPass(disruption_pass.snapshot)
    for_drift = {
        claim.name: command.wave
        for command in commands
        for claim in command.replacements
        if command.reason == TerminationReason.DRIFTED
    }

    def objection(command: Command) -> Refusal | None:
        filled = {move.to for move in command.moves if for_drift.get(move.to) == command.wave}
        return _objection(command, fresh, worthwhile, filled)

    return _without_denied(commands, objection, fresh.carry_out)


def approved_commands(
    commands: Sequence[Command], disruption_pass: DisruptionPass
) -> tuple[list[Command], dict[str, Refusal]]:
    """Return the commands of one wave that the policy Balanced approves, and why others stay, as `valid_commands` does.

    The rest of that check is not needed for a fleet of many nodes: validation refuses a command, before it begins, that leaves
    a pod without a place.
    """
    totals = disruption_pass.totals
    candidates = {candidate.name: candidate for candidate in disruption_pass.survey.candidates} if totals else {}

    def objection(command: Command) -> Refusal | None:
        by_choice = command.reason == TerminationReason.UNDERUTILIZED
        return _unbalanced([candidates[name] for name in command.nodes], command.savings, totals) if by_choice else None

    return _without_denied(commands, objection) if totals else (list(commands), {})


def _without_denied(
    commands: Sequence[Command],
    objection: Callable[[Command], Refusal | None],
    carry_out: Callable[[Sequence[Command]], None] | None = None,
) -> tuple[list[Command], dict[str, Refusal]]:
    passing: list[Command] = []
    objections: dict[str, Refusal] = {}
    lost: dict[str, Refusal] = {}
    for command in commands:
        why = next((lost[move.to] for move in command.moves if move.to in lost), None) or objection(command)
        if why is not None:
            objections |= dict.fromkeys(command.nodes, why)
            lost |= {claim.name: why for claim in command.replacements}
            continue
        passing.append(command)
        if carry_out is not None:
            carry_out([command])
    return passing, objections


def _objection(command: Command, fresh: DisruptionPass, worthwhile: int, filled: Collection[str]) -> Refusal | None:
    """Return why a command is denied. `filled`: the nodes that drift launches in this wave and moves pods to."""
    candidates = {candidate.name: candidate for candidate in fresh.survey.candidates}
    going = [candidates[name] for name in command.nodes if name in candidates]
    if len(going) < len(command.nodes):
        return NO_SAVING
    by_choice = command.reason == TerminationReason.UNDERUTILIZED
    planned_moves = () if command.method in ACROSS_DOMAINS else command.moves  # a pod with a slot keeps its domain
    simulation = fresh.simulate(
        going,
        consolidation=by_choice,
        closed=short_lived(fresh),
        planned_moves=planned_moves,
        new_nodes=command.replacements,
    )
    if simulation.stranded:
        return simulation.stranded
    if len(simulation.claims) > len(command.replacements):
        return NO_SAVING
    if slot_is_denied(command, going, fresh):
        return SLOT_DENIED
    if not by_choice:
        return None
    if any(_rests(name, fresh) for name in filled):
        return SLOT_CHANGED
    price = sum(candidate.price for candidate in going)
    if command.replacements and command.savings * worthwhile < price:
        return NO_SAVING
    return _unbalanced(going, command.savings, fresh.totals)


def _rests(name: str, fresh: DisruptionPass) -> bool:
    """Whether the `consolidateAfter` of any of the nodes has not passed yet."""
    context = fresh.planner.context
    return name in context.positions and context.existing_nodes[context.positions[name]].takes_no_moves


def _unbalanced(going: Sequence[Candidate], savings: int, totals: Mapping[str, PoolTotals]) -> Refusal | None:
    pool = rejecting_pool(going, savings, totals)
    return TargetBelowMoves(pool) if pool else None


# Groups a wave into commands: nodes that share a new node go together, the others in small groups that fail separately.


DELETED_TOGETHER: Final = {TerminationReason.DRIFTED: 1, TerminationReason.UNDERUTILIZED: 10}
"""The most nodes in a command that launches nothing. If one of them must stay, all of them are decided again."""


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
    made: list[Command] = []
    # A new node that a command of another reason launches is only awaited.
    groups = [(nodes, positions, set(positions)) for nodes, positions in components(used)]
    for reason in (TerminationReason.DRIFTED, TerminationReason.UNDERUTILIZED):
        for nodes, positions, waiting in groups:
            nodes_of_reason = [node for node in nodes if fleet.reason(node) == reason]
            for part in _parts(nodes_of_reason, len(nodes_of_reason) if positions else DELETED_TOGETHER[reason]):
                launching = sorted(waiting.intersection(position for node in part for position in used[node]))
                made.append(_command(fleet, [claims[position] for position in launching], part, moves, wave))
                waiting.difference_update(launching)
    return made


def components(used: Mapping[int, Sequence[int]]) -> Iterator[tuple[list[int], list[int]]]:
    """Return the groups of nodes that share new nodes, with these; then all nodes that use none."""
    unvisited = {node: set(positions) for node, positions in used.items() if positions}
    while unvisited:
        first = next(iter(unvisited))
        nodes, positions = [first], set(unvisited.pop(first))
        while joining := [node for node, claims_of_node in unvisited.items() if claims_of_node & positions]:
            for node in joining:
                positions |= unvisited.pop(node)
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
        candidate.name: tuple(sorted({move.to for move in node_moves} & launched))
        for candidate, node_moves in zip(candidates, moves, strict=True)
    }


def _opened(claim: PlannedClaim, arriving: Sequence[str], fleet: TargetFleet) -> PlannedClaim:
    """Return a new node with the pods of the wave that launches it. Its types also have room for pods of later waves."""
    planned = {key for key in claim.pods if key in fleet.rows.row_of_pod}
    requested = dict(claim.resources)
    for key in sorted(planned.difference(arriving)):
        requested = quantity.subtract(requested, _requests(fleet, key))
    for key in sorted(set(arriving) - planned):
        requested = quantity.add(requested, _requests(fleet, key))
    pods = sorted({*arriving, *(key for key in claim.pods if key not in planned)})
    return msgspec.structs.replace(claim, pods=tuple(pods), resources=requested)


def _requests(fleet: TargetFleet, key: str) -> dict[str, int]:
    """Return what a pod requests; equal for all pods of its item."""
    rows = fleet.rows
    return rows.amounts(rows.row_of_pod[key])


WAVES_MAX: Final = 400
"""The most waves of one target. With a budget of one node, each wave removes one."""

TRIES_MAX: Final = 40
"""The most attempts at a wave of other nodes, after earlier ones did not pay. Each attempt orders all nodes of the fleet."""

PARTNERS_MAX: Final = 3
"""The most partners: nodes that join others which alone do not pay for their new nodes, or a spot node with few types."""

OPEN_SLOT: Final = 4_000_000
"""Bonus in the ranking of nodes for each slot that is open already, in nano-dollars per hour."""


@dataclass(slots=True)
class Wave:
    """Nodes that leave together.

    Attributes:
        moves: Row of a node → where its pods go.
        launched: Positions of the new nodes that it launches.
        partners: Row of a node that needs no new node → row of one that does: they go in one command.
        sharing: PodDisruptionBudget → positions of the wave's new nodes to which nodes with pods of it move pods.
        is_crowded: Whether a node is left out since others use up a PodDisruptionBudget of its pods.
    """

    moves: dict[int, list[Move]] = field(default_factory=dict)
    launched: list[int] = field(default_factory=list)
    partners: dict[int, int] = field(default_factory=dict)
    sharing: dict[BudgetKey, set[int]] = field(default_factory=dict)
    is_crowded: bool = False


class WavePlanner:
    """Plans the waves of one target.

    Attributes:
        objections: Node of the target that the last wave leaves out → why, budgets aside.
    """

    def __init__(
        self,
        disruption_pass: DisruptionPass,
        fleet: TargetFleet,
        realization: Realization,
        slots: SlotAssignment,
        worth: Floats,
    ) -> None:
        """Prepare a target.

        Args:
            disruption_pass: The budgets and the commands decided so far.
            fleet: The candidates.
            realization: Where the drained pods go.
            slots: The slots for these pods.
            worth: [node], its price less the cost of its pods elsewhere, in nano-dollars per hour.
        """
        self._fleet = fleet
        self._slots = slots
        self._budgets = WaveBudgets(disruption_pass)
        self._pass_budgets = disruption_pass.budgets
        self.objections: dict[str, Refusal] = {}
        self._left = [node for node, stays in enumerate(realization.keeps) if not stays]
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
        made: list[Command] = []
        for number in range(1, waves_max + 1):
            wave = self._paid(must_pay=must_pay or waves_max == 1, only=together if number == 1 else ())
            if not wave.moves:
                break
            self._left = [node for node in self._left if node not in wave.moves]
            used = self._used(wave)
            made += wave_commands(self._fleet, self._slots.claims, wave.moves, used, number)
        return made

    def _paid(self, *, must_pay: bool, only: Collection[str]) -> Wave:
        """Return the next wave; if its nodes do not pay for their new nodes, one of others. It is empty if there is none.

        Nodes that share a PodDisruptionBudget go one after the other, as far as some of them pay. If none do, they go in one
        command, whose drain takes turns.
        """
        self._budgets.begin()
        wave = self._paying(must_pay=must_pay, only=only, takes_turns=False)
        if must_pay and wave.is_crowded and not wave.moves:
            self._budgets.begin_again()
            wave = self._paying(must_pay=must_pay, only=only, takes_turns=True)
        self._budgets.end()
        return wave

    def _paying(self, *, must_pay: bool, only: Collection[str], takes_turns: bool) -> Wave:
        unpaid: dict[str, Refusal] = {}
        is_crowded = False
        for _ in range(TRIES_MAX):
            wave = self._next(besides=unpaid, only=only, takes_turns=takes_turns)
            is_crowded |= wave.is_crowded
            planned = set(wave.moves)
            self._remove_unpaid(wave, must_pay=must_pay)
            if wave.moves or not planned:
                break
            unpaid |= {name: why for name, why in self.objections.items() if why == TOO_DEAR}
            self._budgets.begin_again()
        self.objections |= unpaid
        wave.is_crowded = is_crowded
        return wave

    def _next(self, *, besides: Collection[str], only: Collection[str], takes_turns: bool) -> Wave:
        """Return nodes in the order of saving for disruption, as many as all budgets let go together, without `besides`.

        If `only` names any, NodePools' budgets let all of these go, and no others. With `takes_turns`, nodes that share a new
        node also share PodDisruptionBudgets.
        """
        self.objections.clear()
        wave, wanted = Wave(), self._waiting(besides) if takes_turns else Counter[int]()
        open_slots = self._slots.open_slots()
        order = sorted(self._left, key=lambda node: (self._rank(node, open_slots), self._fleet.candidates[node].name))
        for node in order:
            candidate = self._fleet.candidates[node]
            if candidate.name in besides or self._fleet.held[node] or (only and candidate.name not in only):
                continue
            spent = self._budgets.spent(candidate)
            if spent and (not takes_turns or self._fleet.must_go[node]):
                wave.is_crowded = True
                continue
            reason, is_shared = self._fleet.reason(node), bool(spent)
            if not self._budgets.admits(candidate, reason, counts_nodes=not only, shares_evictions=is_shared):
                continue
            before = set(self._slots.launched)
            moves = self._slots.take(node, wanted if takes_turns else wanted + self._needs[node])
            if moves is None:
                self.objections[candidate.name] = NO_SLOTS
                continue
            launched = sorted(self._slots.launched - before)
            has_room = not launched or self._budgets.has_room_for([self._slots.claims[i] for i in launched], candidate)
            new = self._new_nodes(moves, [*wave.launched, *launched])
            if not has_room or any(wave.sharing.get(budget, set()).isdisjoint(new) for budget in spent):
                self._slots.release(node, moves, launched)
                if not has_room:
                    self.objections[candidate.name] = NO_LIMITS
                continue
            wanted += self._needs[node]
            self._budgets.take(candidate)
            for position in launched:
                self._budgets.launch(self._slots.claims[position])
            wave.moves[node] = moves
            wave.launched += launched
            for budget in self._budgets.guarding(candidate):
                wave.sharing.setdefault(budget, set()).update(() if self._fleet.must_go[node] else new)
        return wave

    def _waiting(self, besides: Collection[str]) -> Counter[int]:
        """Return item → how many pods of nodes move that are in no wave yet, without those `besides`."""
        waiting: Counter[int] = Counter()
        for node in self._left:
            if self._fleet.candidates[node].name not in besides:
                waiting.update(self._needs[node])
        return waiting

    def _new_nodes(self, moves: Sequence[Move], launched: Sequence[int]) -> list[int]:
        """Return the positions of those new nodes of a wave to which pods move."""
        names = {self._slots.claims[position].name: position for position in launched}
        return sorted({names[move.to] for move in moves if move.to in names})

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
        going, launched = [self._fleet.candidates[node] for node in nodes], [claims[position] for position in positions]
        price = sum(int(problem.prices[node]) for node in nodes) - price_of_turns(launched, going, self._pass_budgets)
        planned = sum(claim.price for claim in launched)
        pays = must_pay or price > planned
        is_lone_spot = len(nodes) == 1 and bool(problem.is_spot[nodes[0]])
        if self._slots.narrow_to(positions, price if pays else None, flexible=is_lone_spot):
            return True
        # A large fleet saves by a wide margin as a whole, and each new node costs at most `WORST_RATIO` times its price.
        is_large, is_planned = len(self._fleet.candidates) > SMALL, price > planned or not must_pay
        return is_large and is_planned and self._slots.narrow_to(positions, None, flexible=is_lone_spot)

    def _used(self, wave: Wave) -> dict[int, list[int]]:
        """Return row of each node of the wave → positions of the new nodes that it or its partner needs."""
        used = {node: self._new_nodes(moves, wave.launched) for node, moves in wave.moves.items()}
        return {node: positions or used.get(wave.partners.get(node, node), []) for node, positions in used.items()}

    def _rank(self, node: int, open_slots: Counter[int]) -> tuple[int, float]:
        """Rank nodes by when they drifted, then by the saving for the disruption, where open slots already count as saved."""
        if self._fleet.must_go[node]:
            since = self._fleet.candidates[node].drifted_at
            return 0, since.timestamp() if since is not None else float("inf")
        worth = float(self._worth[node]) + OPEN_SLOT * (self._needs[node] & open_slots).total()
        return 1, -worth / self._fleet.candidates[node].cost


# Chooses the commands of a target that may begin now, or with budgets ignored, all of them.


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A complete target that can be carried out.

    Attributes:
        fleet: The candidates.
        realization: The nodes that go, and where the pods go.
        claims: New nodes under their final names.
        worth: [node], its price less the cost of its pods elsewhere, in nano-dollars per hour.
    """

    fleet: TargetFleet
    realization: Realization
    claims: tuple[PlannedClaim, ...]
    worth: Floats

    @property
    def drains(self) -> frozenset[str]:
        """The nodes that leave."""
        pairs = zip(self.fleet.candidates, self.realization.keeps, strict=True)
        return frozenset(candidate.name for candidate, stays in pairs if not stays)


@dataclass(frozen=True, slots=True, eq=False)
class TargetWaves:
    """Commands of a target.

    Attributes:
        commands: In their order.
        objections: Node → why it does not go, budgets aside.
        saved: What new nodes in other domains than the target's save, in nano-dollars per hour.
    """

    commands: list[Command]
    objections: Mapping[str, Refusal]
    saved: int = 0

    @property
    def savings(self) -> int:
        """What the commands save, in nano-dollars per hour."""
        return sum(command.savings for command in self.commands)


def target_waves(target: Target, disruption_pass: DisruptionPass, *, is_gated: bool) -> TargetWaves:
    """Return the commands of the first wave, or with budgets ignored, of all waves.

    In a small fleet, each command is valid and pays individually. With budgets ignored, nodes that pay in no wave, and if that
    saves more, all nodes of the target, go together in the first one.
    """
    is_whole = disruption_pass.snapshot.options.ignore_budgets
    waves_max = WAVES_MAX if is_whole else 1
    if len(target.fleet.candidates) > SMALL:
        planned = _planned(target, disruption_pass, is_gated=is_gated, waves_max=waves_max)
        if is_whole:
            paid, unpaid = paid_back(planned.commands)
            return TargetWaves(paid, {**planned.objections, **unpaid})
        approved, denied = approved_commands(planned.commands, disruption_pass)
        return TargetWaves(approved, {**planned.objections, **denied})
    attempt = _valid(target, disruption_pass, is_gated=is_gated, waves_max=waves_max)
    if not is_whole:
        return attempt
    undone = target.drains.difference(*(command.nodes for command in attempt.commands))
    for together in (undone, target.drains) if undone else ():
        other = _valid(target, disruption_pass, is_gated=is_gated, waves_max=waves_max, together=together)
        attempt = max(attempt, other, key=lambda waves: waves.savings)
    return attempt


def paid_back(commands: Sequence[Command]) -> tuple[list[Command], dict[str, Refusal]]:
    """Return the commands of all waves, none of which makes the cluster dearer by itself, and why other nodes stay.

    Whoever stops after a command must not be left with more to pay. A command whose new nodes cost more than its nodes is
    joined by those that would fill the new nodes in later waves, as many as it takes; one that never pays is left out, with all
    that move pods to its new nodes.
    """
    paying: list[Command] = []
    objections: dict[str, Refusal] = {}
    lost: set[str] = set()
    waiting = list(commands)
    while waiting:
        command = waiting.pop(0)
        command, waiting = _joined(command, waiting)
        depends = any(move.to in lost for move in command.moves)
        if depends or (command.reason == TerminationReason.UNDERUTILIZED and command.savings < 0):
            objections |= dict.fromkeys(command.nodes, TOO_DEAR)
            lost |= {claim.name for claim in command.replacements}
            continue
        paying.append(command)
    return paying, objections


def _joined(command: Command, later: list[Command]) -> tuple[Command, list[Command]]:
    """Return a command that costs money together with later ones that use its new nodes, and the rest of these."""
    remaining = list(later)
    while command.reason == TerminationReason.UNDERUTILIZED and command.savings < 0:
        names = {claim.name for claim in command.replacements}
        joining = (c for c in remaining if c.reason == command.reason and any(move.to in names for move in c.moves))
        other = next(joining, None)
        if other is None:
            break
        remaining.remove(other)
        command = msgspec.structs.replace(
            command,
            nodes=(*command.nodes, *other.nodes),
            claims=(*command.claims, *other.claims),
            replacements=(*command.replacements, *other.replacements),
            moves=(*command.moves, *other.moves),
            savings=command.savings + other.savings,
            awaits={},
        )
    return command, remaining


def _valid(
    target: Target, disruption_pass: DisruptionPass, *, is_gated: bool, waves_max: int, together: Collection[str] = ()
) -> TargetWaves:
    """Return commands that are valid individually.

    One has a cheaper new node in another domain if no node of another has to stay for that.
    """
    planned = _planned(
        target, disruption_pass, is_gated=is_gated, waves_max=waves_max, must_pay=True, together=together
    )
    check = partial(valid_commands, disruption_pass=disruption_pass, worthwhile=WORTHWHILE)
    changed = with_domain_change(planned.commands, disruption_pass)
    valid, denied = check(changed)
    if changed != planned.commands and denied:
        without_change = check(planned.commands)
        if len(without_change[1]) < len(denied):
            return TargetWaves(without_change[0], {**planned.objections, **without_change[1]})
    saved = sum(command.savings for command in changed) - planned.savings
    return TargetWaves(valid, {**planned.objections, **denied}, saved)


def _planned(
    target: Target,
    disruption_pass: DisruptionPass,
    *,
    is_gated: bool,
    waves_max: int,
    must_pay: bool = False,
    together: Collection[str] = (),
) -> TargetWaves:
    slots = SlotAssignment(target.fleet, target.realization, target.claims, is_gated=is_gated)
    planner = WavePlanner(disruption_pass, target.fleet, target.realization, slots, target.worth)
    made = planner.commands(waves_max=waves_max, must_pay=must_pay, together=together)
    return TargetWaves(made, dict(planner.objections))
