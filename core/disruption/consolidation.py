"""Decides whether some nodes can be deleted, or replaced by one cheaper node: Karpenter's price rules.

A replacement's most expensive launch must be strictly cheaper than all nodes that it replaces together. If it may be spot, it
must be spot: on-demand would not be cheaper. Spot replaces spot only with the feature gate, and a single node only if fifteen
types are cheaper, so that the next price change does not move it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from core import labels
from core.disruption.candidate import Candidate, rejecting_pool
from core.disruption.consolidation_nodes import WORTHWHILE
from core.disruption.disruption_pass import DisruptionPass, Simulation, leaving_later
from core.disruption.move_history import first_reason, gate_reason
from core.disruption.pass_budgets import PassBudgets
from core.disruption.prices import ReplacementOptions
from core.model.node_pool import WHEN_EMPTY
from core.model.plan import Blocked, Command, Move, PlannedClaim
from core.model.snapshot import Snapshot
from core.reasons.code import Refusal, Stated, TerminationReason
from core.reasons.nodes import (
    DISPLACES_PENDING,
    NO_CHEAPER_TYPE,
    NO_SPOT_FOR_SPOT,
    ConsolidatedLater,
    ConsolidatedWhenEmpty,
    KeepsReplicas,
    MinValuesUnmet,
    NeverConsolidated,
    NodeReason,
    NotTried,
    PodsLeave,
    PriceUnknown,
    RoomKept,
    SavingsBelowMoves,
    SeveralNodesNeeded,
    TooFewSpotTypes,
)

FLEXIBLE_TYPES: Final = 15
"""How many cheaper types a lone spot node needs before another spot node may replace it (Karpenter)."""


def consolidated(candidates: Sequence[Candidate], disruption_pass: DisruptionPass, *, method: str) -> Command | Refusal:
    """Return the command that removes these nodes, with no replacement or with one."""
    simulation = disruption_pass.simulate(candidates, consolidation=True)
    refusal = unplaced(simulation)
    if refusal is not None:
        return refusal
    replacements: tuple[PlannedClaim, ...] = ()
    if simulation.claims:
        replacement = _replacement(simulation.claims, candidates, disruption_pass)
        if isinstance(replacement, Refusal):
            return replacement
        replacements = (replacement,)
    savings = sum(c.price for c in candidates) - sum(claim.price for claim in replacements)
    pool = rejecting_pool(candidates, savings, disruption_pass.totals)
    if pool:
        return SavingsBelowMoves(pool)
    return Command(
        reason=TerminationReason.UNDERUTILIZED,
        method=method,
        nodes=tuple(c.name for c in candidates),
        claims=tuple(c.claim.name for c in candidates),
        replacements=replacements,
        moves=simulation.moves,
        savings=savings,
    )


def unplaced(simulation: Simulation) -> Refusal | None:
    """Return why the simulated move is impossible, whatever it saves; None if it is possible."""
    return simulation.stranded or (DISPLACES_PENDING if simulation.displaces else None)


def _replacement(
    claims: Sequence[PlannedClaim], candidates: Sequence[Candidate], disruption_pass: DisruptionPass
) -> PlannedClaim | Refusal:
    if len(claims) > 1:
        return SeveralNodesNeeded(len(claims))
    return affordable(claims[0], sum(c.price for c in candidates), candidates, disruption_pass)


def affordable(
    claim: PlannedClaim, price: int, candidates: Sequence[Candidate], disruption_pass: DisruptionPass
) -> PlannedClaim | Refusal:
    """Return the claim, narrowed to what is strictly cheaper than `price` and not merely the same type as a candidate."""
    options = ReplacementOptions.of(claim, disruption_pass.snapshot)
    is_spot = all(c.capacity_type == labels.SPOT for c in candidates)
    if is_spot and labels.SPOT in claim.capacity_types:
        choice = _spot_options(options, price, alone=len(candidates) == 1, disruption_pass=disruption_pass)
    else:
        choice = _cheaper(options, price)
        if not isinstance(choice, Refusal):
            spot = choice.restricted_to(labels.SPOT)
            choice = spot if spot.types and not spot.missing_values() else choice
    if not isinstance(choice, Refusal) and len(candidates) > 1:
        choice = _without_same_type(choice, candidates)
    return choice if isinstance(choice, Refusal) else choice.planned()


def _cheaper(options: ReplacementOptions, price: int) -> ReplacementOptions | Refusal:
    """Return the types whose most expensive launch is below `price`, or a refusal if there are none or minValues fail."""
    cheaper = options.below(price)
    if not cheaper.types:
        return NO_CHEAPER_TYPE
    missing = cheaper.missing_values()
    if missing:
        return MinValuesUnmet(missing)
    return cheaper


def _spot_options(
    options: ReplacementOptions, price: int, *, alone: bool, disruption_pass: DisruptionPass
) -> ReplacementOptions | Refusal:
    if not disruption_pass.snapshot.options.feature_gates.spot_to_spot_consolidation:
        return NO_SPOT_FOR_SPOT
    spot_options = _cheaper(options.restricted_to(labels.SPOT), price)
    if isinstance(spot_options, Refusal) or not alone:
        return spot_options
    if len(spot_options.types) < FLEXIBLE_TYPES:
        return TooFewSpotTypes(FLEXIBLE_TYPES, len(spot_options.types))
    return spot_options.first(max(FLEXIBLE_TYPES, spot_options.needed_for_min_values()))


def _without_same_type(options: ReplacementOptions, candidates: Sequence[Candidate]) -> ReplacementOptions | Refusal:
    """Keep only types cheaper than every candidate whose type is among the options.

    Otherwise the same type would replace one of several nodes: deleting only the others saves as much with fewer moves.
    """
    cheapest: dict[str, int] = {}
    for candidate in candidates:
        name = candidate.instance_type.name if candidate.instance_type is not None else ""
        cheapest[name] = min(candidate.price, cheapest.get(name, candidate.price))
    shared = [cheapest[t.name] for t, _ in options.types if t.name in cheapest]
    return _cheaper(options, min(shared)) if shared else options


# Moves the pods of one command to a cheaper zone if their topology rules allow it.
#
# A target keeps pods with such rules in their domain, so that its commands keep the rules in any order. One command per pass
# may be exempt: the pods of all others stay in their domains, so it finds the same counts whether it runs first or last.


ACROSS_DOMAINS: Final = ("single", "multi")
"""Methods of commands whose pods may leave their domains, for one node and for several. They are validated like Karpenter's."""


def with_domain_change(commands: Sequence[Command], disruption_pass: DisruptionPass) -> list[Command]:
    """Return the commands; the one that saves the most by letting its pods leave their domains is changed, and comes first.

    Every launch of its new node costs less than the one that the target planned. The new node keeps its name.
    """
    changes = [
        (command.savings - changed.savings, number, changed)
        for number, command in enumerate(commands)
        if (changed := _changed(number, commands, disruption_pass)) is not None
    ]
    if not changes:
        return list(commands)
    _, number, changed = min(changes, key=lambda change: change[:2])
    return [changed, *_others(number, commands)]


def _changed(number: int, commands: Sequence[Command], disruption_pass: DisruptionPass) -> Command | None:
    """Return the command with its pods free to leave their domains, None if that is impossible or not cheaper."""
    command = commands[number]
    if not _is_alterable(command):
        return None
    candidates = {candidate.name: candidate for candidate in disruption_pass.survey.candidates}
    going = [candidates[name] for name in command.nodes]
    if not _is_held(going, disruption_pass):
        return None
    (planned,) = command.replacements
    simulation = disruption_pass.simulate(going, consolidation=True)
    if unplaced(simulation) is not None or len(simulation.claims) != 1:
        return None
    claim = affordable(simulation.claims[0], planned.price, going, disruption_pass)
    if isinstance(claim, Refusal):
        return None
    moves = [Move(move.pod, planned.name if move.to == claim.name else move.to) for move in simulation.moves]
    targets = {move.to for move in moves}
    if not targets.isdisjoint(_nodes_of(_others(number, commands)) | leaving_later(disruption_pass)):
        return None
    return _replacing(command, msgspec.structs.replace(claim, name=planned.name), moves)


def _is_alterable(command: Command) -> bool:
    """Whether the command is voluntary, starts now, and has exactly one new node."""
    by_choice = command.reason == TerminationReason.UNDERUTILIZED
    return by_choice and command.wave == 1 and len(command.replacements) == 1


def _is_held(going: Sequence[Candidate], disruption_pass: DisruptionPass) -> bool:
    """Whether the target keeps any pod of these nodes in its domain."""
    groups = disruption_pass.planner.context.pod_groups
    return any(groups.of(pod).signature.domain_keys for candidate in going for pod in candidate.pods)


def _replacing(command: Command, claim: PlannedClaim, moves: Sequence[Move]) -> Command:
    """Return the command with another new node, which all its nodes await."""
    return msgspec.structs.replace(
        command,
        method=ACROSS_DOMAINS[len(command.nodes) > 1],
        replacements=(claim,),
        moves=tuple(sorted(moves)),
        savings=command.savings + command.replacements[0].price - claim.price,
        awaits={},
    )


def _others(number: int, commands: Sequence[Command]) -> list[Command]:
    return [*commands[:number], *commands[number + 1 :]]


def _nodes_of(commands: Sequence[Command]) -> set[str]:
    """Return the names of nodes that commands remove or move pods to."""
    return {name for command in commands for name in (*command.nodes, *(move.to for move in command.moves))}


# Selects the candidates for consolidation, and explains why the others are excluded.


def underutilized(disruption_pass: DisruptionPass) -> list[Candidate]:
    """Return candidates for consolidation that budgets allow, the highest ratio of price to disruption first, ties by name."""
    paying = [
        c
        for c in disruption_pass.candidates(TerminationReason.UNDERUTILIZED)
        if not c.is_empty and objection(c, disruption_pass) is None
    ]
    return sorted(paying, key=lambda c: (-c.savings_ratio, c.name))


def objection(candidate: Candidate, disruption_pass: DisruptionPass) -> Refusal | None:
    """Return what in pool, policy or catalogue keeps an empty or underutilized node; None if nothing does."""
    name, pool = candidate.name, candidate.pool
    now, after = disruption_pass.snapshot.now, pool.disruption.consolidate_after
    if pool.is_static:
        return KeepsReplicas(pool.name, pool.replicas)
    is_half_bought = disruption_pass.is_half_bought(candidate)
    if after is None and not is_half_bought:
        return NeverConsolidated(pool.name)
    if after is not None and not candidate.is_consolidatable(now) and not is_half_bought:
        since = candidate.claim.idle_since or now
        return ConsolidatedLater(pool.name, since + after)
    if candidate.is_empty:
        return RoomKept(name) if name in disruption_pass.buffer_nodes else None
    if pool.disruption.policy == WHEN_EMPTY:
        return ConsolidatedWhenEmpty(pool.name, next(pod.key for pod in candidate.pods), name)
    if pool.hours is not None and pool.hours.occupied_until is not None:
        return PodsLeave(pool.name, pool.hours.occupied_until)
    gate = disruption_pass.snapshot.rollouts.get(pool.name) if candidate.drift else None
    if gate is not None:
        return Stated(gate_reason(gate), gate.message)
    why = first_reason(disruption_pass.snapshot.moved_workloads, candidate.pods, now)
    if why is not None:
        return why
    if not candidate.is_priced:
        return PriceUnknown(name, candidate.state.labels.get(labels.INSTANCE_TYPE) or "(none)")
    return None


# Finds one command by Karpenter's methods for a small fleet whose target has no part that may go now.


_BY_CHOICE: Final = TerminationReason.UNDERUTILIZED

ROUNDS_AN_HOUR: Final = 60
"""How often in an hour a budget is assumed to let its next pods go: a moved pod is ready again within a minute."""


def single_commands(
    disruption_pass: DisruptionPass,
    candidates: Sequence[Candidate],
    prices: Mapping[str, int],
    has_room_for: Callable[[Sequence[PlannedClaim], Candidate], bool],
) -> list[Command]:
    """Return the commands that save more than the price of their moves, the one that saves the most beyond it first.

    Each deletes or replaces one node, or replaces several by one. A new node is only launched if that saves a share of the
    cost of the nodes that go (`WORTHWHILE`).

    Args:
        disruption_pass: The pass.
        candidates: The nodes that may go.
        prices: Node → price of moving its pods, in nano-dollars per hour.
        has_room_for: Whether the limits of NodePools have room for new nodes beside a candidate that goes for them.
    """
    closed = leaving_later(disruption_pass)
    budgets = disruption_pass.budgets
    paying: list[tuple[int, Command]] = []
    for going in _choices(disruption_pass, candidates):
        method = "multi" if len(going) > 1 else "single"
        command = consolidated(going, disruption_pass, method=method)
        if isinstance(command, Refusal) or not closed.isdisjoint(move.to for move in command.moves):
            continue
        if command.replacements:
            saves_too_little = command.savings * WORTHWHILE < sum(candidate.price for candidate in going)
            if saves_too_little or not any(has_room_for(command.replacements, candidate) for candidate in going):
                continue
        net = (
            command.savings
            - sum(prices[candidate.name] for candidate in going)
            - price_of_turns(command.replacements, going, budgets)
        )
        if net > 0:
            paying.append((net, command))
    return [command for _, command in sorted(paying, key=lambda entry: -entry[0])]


def price_of_turns(new_nodes: Iterable[PlannedClaim], going: Sequence[Candidate], budgets: PassBudgets) -> int:
    """Return what new nodes cost, spread over an hour, while PodDisruptionBudgets let the pods of their nodes go in turn.

    A drain that another wave began takes turns with them.
    """
    waits = budgets.rounds(going) - 1
    return sum(claim.price for claim in new_nodes) * waits // ROUNDS_AN_HOUR


def _choices(disruption_pass: DisruptionPass, candidates: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
    """Yield groups of nodes that budgets let go together: the first ones by price for disruption, then each node alone.

    They end where the time of the pass does.
    """
    ordered = sorted(candidates, key=lambda candidate: (-candidate.savings_ratio, candidate.name))
    together = disruption_pass.budgets.within_one_command(ordered, _BY_CHOICE)
    groups = [together[:count] for count in range(len(together), 1, -1)]
    alone = ([candidate] for candidate in ordered if disruption_pass.budgets.allow([candidate], _BY_CHOICE))
    for group in chain(groups, alone):
        if disruption_pass.is_exhausted:
            return
        yield group


# Says why nodes stay, for `blocked[]` of the output: pods, the NodePool's rules, budgets, or what the methods found.


_KEPT: Final = (
    NodeReason.NO_CHEAPER_OPTION,
    NodeReason.SPOT_TO_SPOT,
    NodeReason.PODS_UNSCHEDULABLE,
    NodeReason.TARGET_WAITS,
)
"""Why a target leaves a node, whatever the budgets of its NodePool are."""


def blocked_nodes(disruption_pass: DisruptionPass, snapshot: Snapshot) -> tuple[Blocked, ...]:
    """Return the reasons why each remaining node of the snapshot stays in words, by node; each code once per node."""
    present = {node.name for node in snapshot.nodes}
    refusals = [(name, why, 0) for name, kept in disruption_pass.survey.blocked.items() for why in kept]
    for candidate in disruption_pass.survey.candidates:
        refusals += [(candidate.name, why, savings) for why, savings in _refusals(candidate, disruption_pass)]
    by_code = {
        (name, why.reason): Blocked(name, why.reason, why.message, savings)
        for name, why, savings in reversed(refusals)
        if name in present
    }
    return tuple(by_code[key] for key in sorted(by_code))


def blocks(candidate: Candidate, disruption_pass: DisruptionPass) -> list[Refusal]:
    """Return why a candidate stays: because of its pods, else its pool's rules, else budgets, else what the methods found."""
    return [refusal for refusal, _ in _refusals(candidate, disruption_pass)]


def _refusals(candidate: Candidate, disruption_pass: DisruptionPass) -> list[tuple[Refusal, int]]:
    """Return the same with what the candidate's later removal saves, for what keeps it from a method."""
    unrepaired = disruption_pass.repair_refusals.get(candidate.name)
    rules = list(candidate.protected)
    of_drift: list[tuple[Refusal, int]] = []
    if candidate.drift and candidate.may_drift:
        rules, of_drift = [], [_from_drift(candidate, disruption_pass)]
    rule = objection(candidate, disruption_pass)
    if rule is not None and not candidate.drift:
        rules.append(rule)
    if unrepaired is not None:
        rules.append(unrepaired)
    return [*of_drift, *((refusal, 0) for refusal in rules)] or [_from_methods(candidate, disruption_pass)]


def _from_drift(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[Refusal, int]:
    spent = disruption_pass.budgets.refusal(candidate, TerminationReason.DRIFTED)
    return (spent, 0) if spent is not None else _refused(candidate, disruption_pass)


def _from_methods(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[Refusal, int]:
    refusal, savings = _refused(candidate, disruption_pass)
    if refusal.reason in _KEPT and not disruption_pass.snapshot.options.karpenter_moves_only:
        return refusal, savings  # the target keeps it, and larger budgets would not change that
    reason = TerminationReason.EMPTY if candidate.is_empty else TerminationReason.UNDERUTILIZED
    return disruption_pass.budgets.refusal(candidate, reason) or refusal, savings


def _refused(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[Refusal, int]:
    """Return what a method recorded about the candidate."""
    refusal = disruption_pass.refusals.get(candidate.name)
    return (
        (NotTried(candidate.name), 0)
        if refusal is None
        else (refusal, disruption_pass.later_savings.get(candidate.name, 0))
    )
