"""Plans groups of pods that start together: all or nothing, in one domain, in turns that are fair to single pods.

**All or nothing.** Before pods are placed, each group is tried by itself. One whose minimum finds no place is held: nothing is
planned for it, and its pods say what the first member without a place lacks. If a plan in the end still breaks a group, since
quotas or another order took its room, the group is held and the plan is made again.

**One domain.** Each domain of a group (a zone, a value of another label) is tried on its own; the cheapest that holds the
minimum is the group's. Room on nodes that exist costs nothing, and offerings that EC2 refused recently are not offered, so what
is there already and what there is capacity for decide, too. Members that run decide for the others.

**Turns.** Groups are placed before single pods, the highest priority first, then the oldest. If single pods are left without
a place, those that outrank a group (a higher priority, or the same and older) are placed before it, and the plan is made once
more; it replaces the first if any of them gets a place. So neither waits for ever: who waits grows old.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import product
from operator import mul
from typing import Final, NamedTuple

import msgspec

from core import labels
from core.gangs import Gang
from core.model.plan import PlannedClaim, PlannedGroup
from core.model.pod import Pod
from core.model.state_node import StateNode
from core.model.values.requirements import Requirement, Requirements
from core.reasons.groups import MembersUnplaced, RunsApart, Saying
from core.scheduling.claim_search import Solution
from core.scheduling.context import GangPlan, HeldGang, SchedulingContext, is_virtual
from core.scheduling.explanation import Diagnosis
from core.scheduling.new_node import InFlightClaim
from core.scheduling.pods import Avoids, PendingGroup
from core.scheduling.primitives import Vector, memo, plus
from core.scheduling.replanning import Extra, planned_within_ec2_limits
from core.scheduling.scheduler import GreedyScheduler, queue_of

DOMAINS_MAX: Final = 16
"""The most domains that are tried for one group, in the order of their names."""

REBUILDS_MAX: Final = 16
"""How often the groups are placed again without one that turned out to be incomplete; then all such groups are held at once.

It is needed only at limits: equal groups fail together, so each time is for another kind of group or another domain.
"""

PRICE_PER_UNUSED_MIN: Final = 100
"""A further domain of equal price gets groups once these cost so many times the most that is unused of a node."""

_MILLION: Final = 1_000_000

EXPLAINED_MAX: Final = 32
"""For how many held groups a plan says what a member lacks; finding that takes as long as placing many pods."""

_LATE: Final = datetime.max.replace(tzinfo=UTC)

Domain = tuple[tuple[str, str], ...]
"""Topology key and value, in the order of the group's keys; empty for a group that may be anywhere."""

_Kind = tuple[tuple[int, int], ...]
"""Numbers of groups of equal pods, each with how many of them must have a place."""

_Lack = tuple[int, tuple[str, str] | None]
"""How many members have no place, and code and sentence of what the first of them lacks, if anything was found."""

_Rank = tuple[int, datetime, str]


_BOOKED: Final[_Rank] = (-(2**63), datetime.min.replace(tzinfo=UTC), "")
"""The turn of a booked place: before everything."""


class _Unit(NamedTuple):
    """A group, or a pod that comes before one; `core` are the members that must have a place, `others` come later."""

    rank: _Rank
    core: tuple[Pod, ...]
    others: tuple[Pod, ...] = ()
    gang: Gang | None = None


class _Offer(NamedTuple):
    """A domain that holds a group: the price of its new nodes there, and the most that is unused of one of them."""

    price: int
    domain: Domain
    unused: int


class _Levels:
    """Divides groups between domains of equal price, so that each of these gets much the same of every resource.

    Where the groups of one zone need more memory per CPU than its machines have, and the pods of another less, CPU stays unused
    in the first and memory in the second. Each further domain may cost the unused part of one more node, so it gets groups only
    once that is a hundredth of what all of them cost.
    """

    def __init__(self, requests: Mapping[_Kind, Vector], kinds: Sequence[_Kind]) -> None:
        """Take what a group of each kind requests, and the kind of each group."""
        totals = [max(1, sum(column)) for column in zip(*(requests[kind] for kind in kinds), strict=True)]
        self._shares = {
            kind: tuple(_MILLION * amount // total for amount, total in zip(amounts, totals, strict=True))
            for kind, amounts in requests.items()
        }
        self._taken: dict[Domain, Vector] = {}
        self._prices: dict[Domain, int] = {}
        self._unused_max = 0

    def chosen(self, kind: _Kind, ranked: Sequence[_Offer]) -> Domain:
        """Return the domain for the next group, one of the cheapest that hold it."""
        best = ranked[0]
        if not best.price:
            return best.domain
        domain = self._least_taken(kind, [offer for offer in ranked if offer.price == best.price])
        self._prices[domain] = self._prices.get(domain, 0) + best.price
        shares = self._shares[kind]
        self._taken[domain] = plus(self._taken[domain], shares) if domain in self._taken else shares
        return domain

    def _least_taken(self, kind: _Kind, equal: Sequence[_Offer]) -> Domain:
        self._unused_max = max(self._unused_max, equal[0].unused)
        price = equal[0].price + sum(self._prices.get(offer.domain, 0) for offer in equal)
        free = [offer.domain for offer in equal if offer.domain not in self._taken]
        used = [offer.domain for offer in equal if offer.domain in self._taken]
        if free and len(used) * self._unused_max * PRICE_PER_UNUSED_MIN <= price:
            return free[0]
        # Of Σ (share taken)² over domains and resources, a group adds 2 · taken · shares, and what is equal for all domains.
        return min(used, key=lambda domain: sum(map(mul, self._taken[domain], self._shares[kind])))


def with_gangs(context: SchedulingContext, early: Iterable[Pod] = ()) -> SchedulingContext:
    """Return the context in which each group has its turn and its domain, and those that cannot be complete are held.

    Args:
        context: The snapshot.
        early: Single pods that are placed before the groups that they outrank.
    """
    if context.gang_plan.is_made:
        return context
    early = tuple(early)
    guess = None if early else _Admission(context, ()).guess()
    return guess or _Admission(context, early).result()


class _Admission:
    """Decides which groups are planned for, and where."""

    def __init__(self, context: SchedulingContext, early: tuple[Pod, ...]) -> None:
        self._context = context
        self._pending = {pod.key: pod for pod in context.pending}
        self._held: list[HeldGang] = []
        self._lacks: dict[_Kind, _Lack] = {}
        """How many members had no place when such a group failed first, and what the first of them lacked."""
        units = [unit for gang in context.gangs if (unit := self._unit(gang)) is not None]
        units += [_Unit(_rank(pod), (pod,)) for pod in early]
        units += [_Unit(_BOOKED, (pod,)) for pod in context.booked]
        self._units = sorted(units, key=lambda unit: unit.rank)
        self._kinds = [self._kind(unit) for unit in self._units]
        self._full: dict[tuple[_Kind, Domain], int] = {}
        """The turn from which on a domain has no room for such a group: equal ones fail together."""
        self._prices: dict[tuple[_Kind, tuple[Domain, ...]], list[_Offer]] = {}
        self._domains: dict[str, Domain] = {}
        self._values: Callable[[str], tuple[str, ...]] = memo(partial(_values, context))
        apart = [unit.core for unit in self._units if unit.gang is not None and unit.gang.topology_keys]
        self._pinned: Callable[[Domain], SchedulingContext] = memo(partial(_pinned, context, apart))

    def guess(self) -> SchedulingContext | None:
        """Return the context as if groups took nothing from each other; None if they share room on existing nodes.

        Where nothing is scarce, that is so, and it takes a try for each kind of group instead of one for each group.
        """
        nothing, levels = GreedyScheduler(self._context, [], self._context.leaving, frozenset()), self._levels()
        nothing.place_more(self._queue(_Unit(_BOOKED, self._context.booked), ()))
        for unit, kind in zip(self._units, self._kinds, strict=True):
            if unit.gang is None:
                continue
            candidates = self._candidates(unit.gang)
            ranked = self._ranked(nothing, unit, kind, candidates)
            if len(candidates) > 1 and (kind, tuple(candidates)) not in self._prices:
                return None
            if not ranked:
                return None
            self._domains[unit.gang.identity] = levels.chosen(kind, ranked)
        return self._decided(is_guess=True)

    def result(self) -> SchedulingContext:
        """Return the context with the decision about groups that are tried beside each other."""
        for attempt in range(REBUILDS_MAX + 1):
            if self._place_all(is_last=attempt == REBUILDS_MAX):
                break
        return self._decided(is_guess=False)

    def _decided(self, *, is_guess: bool) -> SchedulingContext:
        held = {held_gang.gang.identity for held_gang in self._held}
        turns: dict[str, int] = {}
        pins: dict[str, Requirements] = {}
        for turn, unit in enumerate(self._units):
            if unit.gang is not None and unit.gang.identity in held:
                continue
            turns |= {pod.key: turn for pod in unit.core}
            domain = self._domains.get(unit.gang.identity, ()) if unit.gang is not None else ()
            if domain:
                pins |= dict.fromkeys((pod.key for pod in (*unit.core, *unit.others)), _pin(domain))
        domains = {
            name: _named(domain) for name, domain in sorted(self._domains.items()) if domain and name not in held
        }
        held_gangs = tuple(sorted(self._held, key=_name_of))
        uses_turns = not is_guess or bool(self._context.booked)
        plan = GangPlan(turns, domains, held_gangs, uses_turns=uses_turns, is_guess=is_guess, is_made=True)
        return self._context.with_gangs(plan, pins, _members(self._held))

    def _unit(self, gang: Gang) -> _Unit | None:
        """Return a group with its members; None, if nothing is to be planned for it."""
        members = [self._pending[key] for key in gang.keys if key in self._pending]
        if gang.refusal is not None:
            self._held.append(HeldGang(gang, len(gang.settled), gang.refusal))
            return None
        if not members:
            return None
        here = self._present_domains(gang)
        if any(len(values) > 1 for values in here.values()):
            key, values = next((key, values) for key, values in here.items() if len(values) > 1)
            sayings = tuple(Saying(value, pods[0], len(pods) - 1) for value, pods in values.items())
            self._held.append(HeldGang(gang, len(gang.settled), RunsApart(gang.name, key, sayings)))
            return None
        return _Unit(gang.rank, tuple(members[: gang.needed]), tuple(members[gang.needed :]), gang)

    def _kind(self, unit: _Unit) -> _Kind:
        counts = Counter([group.index for group in map(self._context.pod_groups.of, unit.core)])
        return tuple(sorted(counts.items()))

    def _levels(self) -> _Levels:
        """Return the levels of the domains before any group has one."""
        cores = [
            (kind, unit.core) for kind, unit in zip(self._kinds, self._units, strict=True) if unit.gang is not None
        ]
        of = self._context.pod_groups.of
        requests = {kind: reduce(plus, (of(pod).requests for pod in core)) for kind, core in dict(cores).items()}
        return _Levels(requests, [kind for kind, _ in cores])

    def _place_all(self, *, is_last: bool) -> bool:
        """Place the units in their turns; return False if a group failed, which is then held or gets another domain."""
        running = GreedyScheduler(self._context, [], self._context.leaving, frozenset())
        self._domains, levels = {}, self._levels()
        held = {held_gang.gang.identity for held_gang in self._held}
        for turn, (unit, kind) in enumerate(zip(self._units, self._kinds, strict=True)):
            if unit.gang is None:
                running.place_more(self._queue(unit, ()))
                continue
            if unit.gang.identity in held:
                continue
            candidates = [
                domain for domain in self._candidates(unit.gang) if turn < self._full.get((kind, domain), turn + 1)
            ]
            ranked = self._ranked(running, unit, kind, candidates)
            if not ranked:
                self._hold(unit, unit.gang, kind, self._best_try(running, unit, candidates))
                continue
            domain = self._domains[unit.gang.identity] = levels.chosen(kind, ranked)
            if not running.place_more(self._queue(unit, domain)):
                self._full[kind, domain] = turn
                if is_last or len(ranked) == 1:
                    self._hold(unit, unit.gang, kind, running)
                if not is_last:
                    return False
        return True

    def _queue(self, unit: _Unit, domain: Domain) -> list[PendingGroup]:
        return queue_of(self._pinned(domain) if domain else self._context, [(unit.core, Avoids.NO_NODE)])

    def _candidates(self, gang: Gang) -> list[Domain]:
        """Return the domains that a group may get, those of its running members if it has any."""
        if not gang.topology_keys:
            return [()]
        here = self._present_domains(gang)
        values = [tuple(here.get(key, ())) or self._values(key) for key in gang.topology_keys]
        if gang.places:
            values[0] = gang.places
        every = (tuple(zip(gang.topology_keys, chosen, strict=True)) for chosen in product(*values))
        return [domain for _, domain in zip(range(DOMAINS_MAX), every, strict=False)]

    def _present_domains(self, gang: Gang) -> dict[str, dict[str, list[str]]]:
        """Return topology key → the values that nodes of running members have, as far as they are known → those members."""
        by_key: dict[str, dict[str, list[str]]] = {}
        for pod in gang.settled if gang.topology_keys else ():
            position = self._context.positions.get(pod.node_name or pod.nominated_node_name)
            if position is None or pod.is_terminal:
                continue
            for key in gang.topology_keys:
                value = self._context.existing_nodes[position].domain(key)
                if value is not None:
                    by_key.setdefault(key, {}).setdefault(value, []).append(pod.key)
        return {key: dict(sorted(values.items())) for key, values in by_key.items()}

    def _ranked(
        self, running: GreedyScheduler, unit: _Unit, kind: _Kind, candidates: Sequence[Domain]
    ) -> Sequence[_Offer]:
        """Return the domains that hold the group's minimum, the cheapest first."""
        if len(candidates) < 2:
            return [_Offer(0, domain, 0) for domain in candidates]
        question = (kind, tuple(candidates))
        earlier = self._prices.get(question)
        if earlier is not None:
            return earlier
        tries = [(self._try(running, unit, domain), domain) for domain in candidates]
        ranked = sorted(_offer(attempt, domain) for attempt, domain in tries if not attempt.so_far().unplaced)
        if not any(attempt.bound for attempt, _ in tries):
            self._prices[question] = ranked  # room on existing nodes goes, prices of new nodes stay
        return ranked

    def _try(self, running: GreedyScheduler, unit: _Unit, domain: Domain) -> GreedyScheduler:
        """Return the plan of a group alone, beside what earlier ones use of existing nodes."""
        alone = GreedyScheduler(self._context, [], self._context.leaving, frozenset())
        alone.nodes.fill_like(running.nodes)
        alone.place_more(self._queue(unit, domain))
        return alone

    def _best_try(self, running: GreedyScheduler, unit: _Unit, candidates: Sequence[Domain]) -> GreedyScheduler | None:
        """Return the plan that places the most members, None if no domain is left to try."""
        tries = [self._try(running, unit, domain) for domain in candidates]
        return min(tries, key=_missing, default=None)

    def _hold(self, unit: _Unit, gang: Gang, kind: _Kind, attempt: GreedyScheduler | None) -> None:
        """Hold a group; a plan without a place for some member says what is lacking, an earlier one for equal groups."""
        if kind not in self._lacks and attempt is not None:
            self._lacks[kind] = _lack(
                self._context, unit.core, attempt.so_far(), explains=len(self._lacks) < EXPLAINED_MAX
            )
        self._held.append(_incomplete(gang, unit.core, *self._lacks.get(kind, (len(unit.core), None))))


def _pinned(context: SchedulingContext, cores: Iterable[tuple[Pod, ...]], domain: Domain) -> SchedulingContext:
    """Return the context in which whoever of these members is planned for must be in a domain: one for all tries there."""
    pins = dict.fromkeys((pod.key for core in cores for pod in core), _pin(domain))
    return context.with_gangs(context.gang_plan, pins, ())


def _lack(context: SchedulingContext, core: Sequence[Pod], solution: Solution, *, explains: bool = True) -> _Lack:
    """Return how many members have no place in a plan, and what the first of them lacks."""
    core_keys = {pod.key for pod in core}
    lacking = [
        (group, pod) for group in solution.unplaced for pod in group.pods[group.placed :] if pod.key in core_keys
    ]
    if not lacking or not explains:
        return len(lacking), None
    group, pod = lacking[0]
    finding = Diagnosis(context, solution).of(group.pod_group, pod if pod.spec.volumes else None)
    return len(lacking), (finding.reason, "; ".join(finding.message.split("\n")))  # a line for each NodePool


def _incomplete(gang: Gang, core: Sequence[Pod], missing: int, lack: tuple[str, str] | None) -> HeldGang:
    """Return a group as held, with how many members have a place, and what the first without one lacks."""
    placed = len(gang.settled) + len(core) - missing
    member = "" if lack is None else core[max(0, len(core) - missing)].key
    refusal = MembersUnplaced(gang.name, placed, gang.minimum, member, lack, tuple(gang.topology_keys))
    return HeldGang(gang, placed, refusal)


def whole_groups(
    context: SchedulingContext, plan: Callable[[SchedulingContext], tuple[Solution, Extra]]
) -> tuple[SchedulingContext, tuple[Solution, Extra]]:
    """Return a plan within EC2's limits that breaks no group, and its context without those limits.

    Groups that a plan breaks are held, and it is made again: each time there is one less, so this ends.
    """
    _, planned = planned_within_ec2_limits(context, plan)
    while broken := _broken(context, planned[0]):
        if context.gang_plan.is_guess:
            context = _Admission(context.before_gangs(), ()).result()
        else:
            context = _without(context, broken, planned[0])
        _, planned = planned_within_ec2_limits(context, plan)
    return context.with_gangs(msgspec.structs.replace(context.gang_plan, is_guess=False), {}, ()), planned


def _broken(context: SchedulingContext, solution: Solution) -> list[Gang]:
    """Return the groups of whose minimum some member has no place."""
    without = [pod.key for group in solution.unplaced for pod in group.pods[group.placed :]]
    if not (without and context.gang_plan.turns):
        return []
    turns, gangs = context.gang_plan.turns, {key: gang for gang in context.gangs for key in gang.keys}
    by_name = {gangs[key].identity: gangs[key] for key in without if key in turns and key in gangs}
    return [by_name[name] for name in sorted(by_name)]


def _without(context: SchedulingContext, broken: Sequence[Gang], solution: Solution) -> SchedulingContext:
    turns = context.gang_plan.turns
    held = []
    for gang in broken:
        core = tuple(pod for pod, key in zip(_all(gang), gang.keys, strict=True) if key in turns)
        held.append(_incomplete(gang, core, *_lack(context, core, solution)))
    gone = _members(held)
    plan = msgspec.structs.replace(
        context.gang_plan,
        turns={key: turn for key, turn in turns.items() if key not in gone},
        held=tuple(sorted((*context.gang_plan.held, *held), key=_name_of)),
        domains={
            name: domain
            for name, domain in context.gang_plan.domains.items()
            if all(held_gang.gang.identity != name for held_gang in held)
        },
    )
    return context.with_gangs(plan, {}, gone)


def in_fair_turns(
    context: SchedulingContext, plan: Callable[[SchedulingContext], tuple[Solution, Extra]]
) -> tuple[SchedulingContext, tuple[Solution, Extra]]:
    """Return a plan as of `whole_groups`; made once more, if single pods that outrank a group had no place."""
    context, planned = whole_groups(context, plan)
    early = _outranking(context, planned[0])
    if not early:
        return context, planned
    other, again = whole_groups(with_gangs(context.before_gangs(), early), plan)
    unplaced = {pod.key for group in again[0].unplaced for pod in group.pods[group.placed :]}
    served = any(pod.key not in unplaced for pod in early)
    return (other, again) if served else (context, planned)


def _outranking(context: SchedulingContext, solution: Solution) -> tuple[Pod, ...]:
    """Return the single pods without a place that outrank a group which gets new nodes; the most important first."""
    plan = context.gang_plan
    if not solution.unplaced:
        return ()
    buying = {pod.key for claim in solution.claims for pod in claim.pods}
    ranks = [gang.rank for gang in context.gangs if any(key in buying and key in plan.turns for key in gang.keys)]
    if not ranks:
        return ()
    members = {key for gang in context.gangs for key in gang.keys}
    last = max(ranks)
    outranking = (
        pod
        for group in solution.unplaced
        if not group.pod_group.refusal
        for pod in group.pods[group.placed :]
        if pod.key not in members and not is_virtual(pod) and _rank(pod) < last
    )
    return tuple(sorted(outranking, key=_rank))


def named_for_groups(context: SchedulingContext, claims: tuple[PlannedClaim, ...]) -> tuple[PlannedClaim, ...]:
    """Return the claims, each with the name of its group if all of its pods must start together with others'."""
    turns = context.gang_plan.turns
    group_of = {key: gang.identity for gang in context.gangs for key in gang.keys if key in turns}
    # Without a minimum, members do not need each other: the size would say that they do (`core.gangs.groups_named`).
    sizes = {gang.identity: gang.total for gang in context.gangs if gang.minimum}
    named = []
    for claim in claims:
        names = {group_of.get(key, "") for key in (*claim.pods, *claim.buffer_pods)}
        (name,) = names if len(names) == 1 else ("",)
        note = {labels.GROUP_OF_CLAIM: name} if name else {}
        note |= {labels.SIZE_OF_GROUP: str(sizes[name])} if name in sizes else {}
        named.append(msgspec.structs.replace(claim, annotations={**claim.annotations, **note}) if note else claim)
    return tuple(named)


def planned_groups(
    context: SchedulingContext, solution: Solution, claims: Sequence[PlannedClaim]
) -> tuple[PlannedGroup, ...]:
    """Return the groups with members that wait, as the plan leaves them."""
    held = {held_gang.gang.identity: held_gang for held_gang in context.gang_plan.held}
    nodes = {pod.key: context.existing_nodes[position].state for pod, position in solution.bound}
    new = {key: claim for claim in claims for key in (*claim.pods, *claim.buffer_pods)}
    return tuple(
        _planned_group(context, gang, held.get(gang.identity), nodes, new)
        for gang in context.gangs
        if gang.waiting or gang.coming or gang.promised
    )


def _planned_group(
    context: SchedulingContext,
    gang: Gang,
    held: HeldGang | None,
    nodes: Mapping[str, StateNode],
    new: Mapping[str, PlannedClaim],
) -> PlannedGroup:
    keys = gang.keys
    placed = sum(key in nodes or key in new for key in keys)
    there = {new[key].name: new[key] for key in keys if key in new}
    zones = {zone for claim in there.values() for zone in claim.zones}
    zones |= {nodes[key].labels.get(labels.ZONE, "") for key in keys if key in nodes}
    shared = {labels.ZONE: next(iter(zones))} if len(zones) == 1 and "" not in zones and placed > 1 else {}
    return PlannedGroup(
        name=gang.name,
        source=gang.source,
        members=gang.total,
        minimum=gang.minimum,
        placed=held.placed if held is not None else len(gang.settled) + gang.promised + placed,
        ready=sum(key in nodes and nodes[key].is_initialized for key in keys),
        domain={**shared, **context.gang_plan.domains.get(gang.identity, {})} if held is None else {},
        hourly=sum(claim.price for claim in there.values()),
        reason=held.refusal.reason if held is not None else "",
        message=held.refusal.message if held is not None else "",
    )


def _values(context: SchedulingContext, key: str) -> tuple[str, ...]:
    """Return the values of a label that nodes have or NodePools offer."""
    values = {value for value in context.node_index.domains(key) if value is not None}
    for template in context.templates:
        values.update(template.types.values(template.mask, template.offered, key))
    return tuple(sorted(values))


def _pin(domain: Domain) -> Requirements:
    """Return the requirement of a domain; an empty value stands for nodes without the label."""
    return Requirements(
        Requirement.one_of(key, value) if value else Requirement.of(key, "DoesNotExist") for key, value in domain
    )


def _named(domain: Domain) -> dict[str, str]:
    return {key: value for key, value in domain if value}


def _offer(attempt: GreedyScheduler, domain: Domain) -> _Offer:
    claims = attempt.claims.claims
    return _Offer(sum(claim.price for claim in claims), domain, max(map(_unused, claims), default=0))


def _unused(claim: InFlightClaim) -> int:
    """Return the part of a claim's price for the share of its cheapest type that its pods leave of every resource."""
    types = claim.template.types
    price, position = types.offerings.first_in_price_order(claim.fitting_types, claim.reqs)
    pairs = zip(claim.used, types.room.vectors[position], strict=True)
    return price - max((price * used // room for used, room in pairs if room > 0), default=0)


def _missing(attempt: GreedyScheduler) -> int:
    return sum(group.waiting for group in attempt.pending_groups)


def _rank(pod: Pod) -> _Rank:
    return -pod.spec.priority, pod.created_at or _LATE, pod.key


def _all(gang: Gang) -> tuple[Pod, ...]:
    return (*gang.waiting, *gang.coming)


def _members(held: Iterable[HeldGang]) -> frozenset[str]:
    return frozenset(key for held_gang in held for key in held_gang.gang.keys)


def _name_of(held: HeldGang) -> str:
    return held.gang.name
