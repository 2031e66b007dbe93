"""Explanations for people: what happens to one pod or one node, and why.

The texts name the object, the code, what was tried and the nearest miss; they need no colour and no width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from core import labels
from core.calendars import hours_of, stays_until, why_closed
from core.catalogue.node_class import CAPACITY_BLOCK
from core.cluster_status import PoolStatus, cluster_status
from core.commitments import coverage_of, paid_price
from core.disruption import disrupt
from core.disruption.consolidation_nodes import payback_minutes
from core.disruption.expiration import ending_reservations, objections
from core.gangs import Gang, groups_leaving, members_of
from core.launch.denials import refused
from core.model.catalogue import InstanceType
from core.model.node_pool import GRACE_PERIOD, NodePool
from core.model.plan import DISRUPTION_REASON, Command, DisruptionPlan, NodeClaim, Plan, PlannedClaim
from core.model.pod import Pod
from core.model.snapshot import ProvisioningRequest, Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values.quantity import dollars, render
from core.pod_disruption_budgets import DisruptionBudgets
from core.pods import may_wait
from core.pools import pool_types
from core.provisioning_requests import obstacle_to, state_of
from core.reasons.code import GROUPS_END_FIRST, PAGE, ReasonCode, on_one_line
from core.reasons.groups import RequestReason
from core.reasons.nodes import NodeReason
from core.reasons.pods import PodReason
from core.scheduling import Planner
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation_text import PodFinding, PodOffer, PoolFinding, nearness, own_conflict, pool_offers
from core.scheduling.new_node import in_group, why_unusable
from core.spending import period_states

_HINTS_MAX: Final = 3
_ALTERNATIVES_MAX: Final = 3

_SAID_BY_MESSAGE: Final = (NodeReason.BUDGET, NodeReason.DO_NOT_DISRUPT)
"""Codes whose message already states their meaning and names the objects."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of one object.

    Attributes:
        subject: `pod shop/cart-0` or `node node-3`.
        outcome: The end of the sentence that the subject begins, such as `is unschedulable`.
        reason: A reason code, empty if there is nothing to explain.
        details: More about it, line by line.
        has_no_place: Whether it is a pending pod without a suitable node or NodePool, or a workload with one.
        pools: What each NodePool lacks for such a pod, nearest first.
    """

    subject: str
    outcome: str
    reason: str = ""
    details: tuple[str, ...] = ()
    has_no_place: bool = False
    pools: tuple[PoolFinding, ...] = ()

    def __str__(self) -> str:
        code = f" [{self.reason}]" if self.reason else ""
        return "\n".join([f"{self.subject} {self.outcome}{code}", *(f"  {line}".rstrip() for line in self.details)])


def explain_pod(snapshot: Snapshot, pod: Pod, out_of_time: Callable[[], float] | None = None) -> Explanation:
    """Explain where a pod of the snapshot would go and what the alternatives cost, or what keeps it from every NodePool.

    Args:
        snapshot: The input of the decision.
        pod: One of its pods.
        out_of_time: As for the explained plan (`Planner.plan`), so that both agree.
    """
    planner = Planner(snapshot)
    plan, finding = planner.explained(pod.key, out_of_time)
    held = next((unplaced for unplaced in plan.unschedulable if unplaced.pod == pod.key), None)
    if finding is None and held is not None:
        details = (*_meaning(PodReason, held.reason), *held.message.splitlines(), *_page(held.reason))
        return Explanation(
            subject=f"pod {pod.key}",
            outcome="is unschedulable",
            reason=held.reason,
            details=details,
            has_no_place=True,
        )
    if finding is None:
        return Explanation(subject=f"pod {pod.key}", outcome=_why_not_pending(snapshot, pod))
    for claim in plan.claims:
        if pod.key in claim.pods:
            lines = (*_claim_lines(snapshot, claim), *_prepaid(snapshot, claim, pod), *_of_scoring(pod))
            return _placed(pod, f"needs a new node, {claim.name}", lines)
    for binding in plan.bindings:
        if binding.pod == pod.key:
            first = "existing nodes come first: they cost nothing extra"
            lines = (first, *_node_of_its_own(planner.offers(pod.key)), *_of_scoring(pod))
            return _placed(pod, f"fits on existing node {binding.node}", lines)
    lines = _pool_lines(finding) or (finding.message,)
    details = (*_meaning(PodReason, finding.reason), *lines, *_hint(finding), *_page(finding.reason), *_of_scoring(pod))
    return Explanation(
        subject=f"pod {pod.key}",
        outcome="is unschedulable",
        reason=finding.reason,
        details=details,
        has_no_place=True,
        pools=tuple(sorted(finding.pools, key=lambda pool: -nearness(pool))),
    )


def with_missing_capacity(explanation: Explanation, snapshot: Snapshot, pod: Pod) -> Explanation:
    """Return an explanation whose reason is missing capacity, and when EC2 is asked again, if nothing else keeps the pod.

    Args:
        explanation: Of a pod without a place.
        snapshot: The input of the decision, in which offerings that EC2 refused are not available.
        pod: The pod.
    """
    claims = Planner(_with_capacity(snapshot), explains=False).results().plan.claims
    claim = next((claim for claim in claims if pod.key in claim.pods), None)
    if claim is None:
        return explanation
    reason = PodReason.NO_OFFERING_AVAILABLE
    details = (*_meaning(PodReason, reason), refused(claim), *_page(reason))
    return msgspec.structs.replace(explanation, reason=reason, details=details)


def _with_capacity(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as if EC2 had capacity for every offering outside of reservations."""

    def opened(types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        return tuple(
            replace(
                instance_type,
                offerings=tuple(o if o.reservation_id else replace(o, available=True) for o in instance_type.offerings),
            )
            for instance_type in types
        )

    replace, catalogue = msgspec.structs.replace, snapshot.catalogue
    by_class = {name: opened(types) for name, types in catalogue.by_node_class.items()}
    return replace(snapshot, catalogue=replace(catalogue, default=opened(catalogue.default), by_node_class=by_class))


def _of_scoring(pod: Pod) -> tuple[str, ...]:
    """Return a warning about a preference that kube-scheduler cannot parse (nodeaffinity, PreScore)."""
    if not pod.spec.unscorable:
        return ()
    why = "kube-scheduler cannot score the pod and binds it only while one node alone passes its filters"
    return (f"{why}: {pod.spec.unscorable}",)


def explain_node(plan: DisruptionPlan, node: str) -> Explanation:
    """Explain why a node goes now, or why it does not."""
    subject = f"node {node}"
    for command in plan.commands:
        if node in command.nodes:
            return Explanation(
                subject=subject, outcome="goes", reason=command.reason, details=_command_lines(command, node)
            )
    for blocked in plan.blocked:
        if blocked.node == node:
            meaning = () if blocked.reason in _SAID_BY_MESSAGE else _meaning(NodeReason, blocked.reason)
            later = (
                (f"it goes later, and saves ${dollars(blocked.savings):.4f} an hour then",) if blocked.savings else ()
            )
            details = (*meaning, *blocked.message.splitlines(), *later)
            return Explanation(subject=subject, outcome="stays", reason=blocked.reason, details=details)
    return Explanation(subject=subject, outcome="stays: it has no NodeClaim", reason=NodeReason.NOT_MANAGED)


def _placed(pod: Pod, outcome: str, details: tuple[str, ...]) -> Explanation:
    return Explanation(subject=f"pod {pod.key}", outcome=outcome, details=details)


def _pool_lines(finding: PodFinding) -> tuple[str, ...]:
    """Return a line for each NodePool with what it lacks, in columns; those that the reason code is about come first."""
    width = max((len(pool.node_pool) for pool in finding.pools), default=0)
    return tuple(
        f"NodePool {pool.node_pool.ljust(width)}  {pool.message.removesuffix(f'nearest: {pool.nearest}').rstrip('; ')}"
        for pool in sorted(finding.pools, key=lambda pool: -nearness(pool))
    )


def _hint(finding: PodFinding) -> tuple[str, ...]:
    """Return the nearest misses; a taint is among them only if it is the reason itself, and then comes first."""
    taint = PodReason.TAINT_NOT_TOLERATED
    nearest = [pool for pool in finding.pools if pool.nearest and (pool.reason != taint or finding.reason == taint)]
    nearest.sort(key=lambda pool: pool.reason != taint)
    lines = [f"hint: nearest miss in {pool.node_pool}: {pool.nearest}" for pool in nearest[:_HINTS_MAX]]
    return ("", *lines) if lines else ()


def _meaning(codes: type[ReasonCode], reason: str) -> tuple[str, ...]:
    return tuple(code.meaning for code in codes if code == reason)


def _claim_lines(snapshot: Snapshot, claim: PlannedClaim) -> tuple[str, ...]:
    types, others = claim.instance_types, len(claim.pods) - 1
    shared_with = f"{others or 'no'} other pod{'s' * (others > 1)}"
    return (
        f"NodePool {claim.node_pool}, ${dollars(claim.price):.4f} an hour, with {shared_with}",
        f"instance types, cheapest first: {', '.join(types[:5])}{f' and {len(types) - 5} more' if types[5:] else ''}",
        f"zones: {', '.join(claim.zones)}; capacity types: {', '.join(claim.capacity_types)}",
        _next_best(snapshot, claim),
    )


def _prepaid(snapshot: Snapshot, claim: PlannedClaim, pod: Pod) -> tuple[str, ...]:
    """Return why a pod that may wait has a node at once."""
    if may_wait(pod, snapshot.now) is None:
        return ()
    commitment = claim.annotations.get(labels.COMMITMENT)
    if commitment:
        return (f"it may wait, but commitment {commitment} lies idle and pays for the node",)
    is_reserved = claim.capacity_types == (labels.RESERVED,)
    return ("it may wait, but a capacity reservation lies idle and pays for the node",) if is_reserved else ()


def _next_best(snapshot: Snapshot, claim: PlannedClaim) -> str:
    """Return what the node would cost as one of the next cheapest types that hold all of its pods."""
    prices = {
        kind.name: min(
            (
                offering.price
                for offering in kind.offerings
                if offering.available
                and offering.zone in claim.zones
                and offering.capacity_type in claim.capacity_types
            ),
            default=None,
        )
        for kind in pool_types(snapshot).of(claim.node_pool)
        if kind.name in claim.instance_types[1 : 1 + _ALTERNATIVES_MAX]
    }
    priced = [(name, prices[name]) for name in claim.instance_types[1 : 1 + _ALTERNATIVES_MAX] if name in prices]
    shown = [
        f"{name} ${dollars(price):.4f} ({_above_cheapest(price, claim.price)})"
        for name, price in priced
        if price is not None
    ]
    if not shown:
        return f"why: {claim.instance_types[0]} is the only type that holds its pods and is on offer"
    return f"why: {claim.instance_types[0]} is the cheapest type that holds its pods; next best: {', '.join(shown)}"


def _above_cheapest(price: int, cheapest: int) -> str:
    """Return the surplus in percent, with a decimal below ten: `+0%` would mean equal prices."""
    if not cheapest:
        return f"+${dollars(price - cheapest):.4f}"
    tenths = 1000 * (price - cheapest) // cheapest
    return f"+{tenths // 10}.{tenths % 10}%" if 0 < tenths < 100 else f"+{tenths // 10}%"


def _node_of_its_own(offers: Sequence[PodOffer]) -> tuple[str, ...]:
    """Return what a new node for the pod alone would cost."""
    shown = [
        f"{claim.instance_type} of NodePool {claim.node_pool} ${dollars(claim.price):.4f} an hour" for claim in offers
    ]
    return (f"a node of its own, next best: {', '.join(shown[:_ALTERNATIVES_MAX])}",) if shown else ()


def _page(reason: str) -> tuple[str, ...]:
    """Return the address of the code's documentation."""
    return (f"more: {PAGE}#{reason.lower()}",) if reason else ()


def _command_lines(command: Command, node: str) -> tuple[str, ...]:
    others = [name for name in command.nodes if name != node]
    minutes = payback_minutes(command)
    paid = "" if minutes is None else f", which pays for the move in {minutes} minute{'' if minutes == 1 else 's'}"
    lines = [f"found by {command.method}, saves ${dollars(command.savings):.4f} an hour{paid}"]
    if others:
        lines.append(f"together with {', '.join(others)}")
    lines += [f"replaced by {claim.name}: {', '.join(claim.instance_types[:5])}" for claim in command.replacements]
    lines += [group.sentence for group in command.groups]
    lines += [f"pod {move.pod} moves to {move.to}" for move in command.moves]
    return tuple(lines)


def _why_not_pending(snapshot: Snapshot, pod: Pod) -> str:
    """Return why the pod is not pending, in the order of the rules for pending pods (Karpenter, IsProvisionable)."""
    if pod.node_name:
        return f"runs on {pod.node_name}" if pod.is_active else f"is done on {pod.node_name}"
    if pod.is_terminal:
        return f"is done: phase {pod.phase}"
    if pod.is_gated:
        return "waits for its scheduling gates, not for a node"
    if pod.nominated_node_name:
        return f"waits for pods to leave {pod.nominated_node_name}, where it was promised a place"
    if pod.is_daemon or pod.is_static:
        return "belongs to its node: nothing is launched for it"
    if snapshot.options.requires_unschedulable_mark and not pod.is_marked_unschedulable:
        return "has not been marked unschedulable by the scheduler yet"
    return "is not pending"


# Explanations of more than one pod: where a workload's pods go, and what a NodePool can launch.


_TYPES_SHOWN: Final = 5
_SINGULAR: Final = {"have": "has"}


def explain_pods(
    snapshot: Snapshot, subject: str, pods: Sequence[Pod], out_of_time: Callable[[], float] | None = None
) -> Explanation:
    """Explain where the pods of one workload go, and what keeps the first without a place from every NodePool.

    Args:
        snapshot: The input of the decision.
        subject: The workload, such as `Deployment shop/web`.
        pods: Its pods, at least one.
        out_of_time: As for `explain_pod`.
    """
    plan = Planner(snapshot).plan(out_of_time)
    lost = {refusal.pod for refusal in plan.unschedulable}
    without = [pod for pod in pods if pod.key in lost]
    lines = _places(plan, pods)
    outcome = f"has {len(pods)} {'pod' if len(pods) == 1 else 'pods'}"
    if not without:
        return Explanation(subject=subject, outcome=outcome, details=tuple(lines))
    example = explain_pod(snapshot, without[0], out_of_time)
    return Explanation(
        subject=subject,
        outcome=f"{outcome}, {len(without)} of them without a place",
        reason=example.reason,
        details=(*lines, f"{without[0].key}:", *(f"  {line}" if line else "" for line in example.details)),
        has_no_place=True,
        pools=example.pools,
    )


def explain_pool(snapshot: Snapshot, pool: NodePool, out_of_time: Callable[[], float] | None = None) -> Explanation:
    """Explain what a NodePool can launch for pods, what its limits leave, and what this plan launches from it."""
    subject = f"NodePool {pool.name}"
    why = why_unusable(pool, snapshot)
    if why is not None:
        return Explanation(subject=subject, outcome=why.message, details=hours_of(pool))
    context = SchedulingContext(snapshot)
    template = next(template for template in context.templates if template.pool is pool)
    if not template.mask:
        return Explanation(subject=subject, outcome="launches nothing", details=(own_conflict(template),))
    offers = pool_offers(template)
    names, rest = offers.types[:_TYPES_SHOWN], len(offers.types) - _TYPES_SHOWN
    lines = [f"instance types, cheapest first: {', '.join(names)}{f' and {rest} more' if rest > 0 else ''}"]
    lines += [f"minValues is not met: its requirements leave {n} values of {key}" for key, n in offers.missing.items()]
    remaining = context.remaining.limits(())[template.index]
    bounds = remaining.bounds(pool)
    lines += [
        f"limit of {name}{in_group(remaining.binding(name))}: "
        f"{render(max(0, amount), name)} of {render(bounds[name], name)} left"
        for name, amount in sorted(remaining.left.items())
    ]
    lines += _of_caps(context, pool)
    lines += [f"pods need a toleration of {taint}" for taint in pool.taints]
    lines += hours_of(pool)
    lines += _launched(Planner(snapshot, context).plan(out_of_time), pool)
    count = f"{len(offers.types)} instance type{'' if len(offers.types) == 1 else 's'}"
    return Explanation(
        subject=subject, outcome=f"can launch {count}, from ${dollars(offers.price):.4f} an hour", details=tuple(lines)
    )


def _of_caps(context: SchedulingContext, pool: NodePool) -> Iterator[str]:
    """Return what the caps that count a NodePool's nodes by their pods leave."""
    rooms = context.remaining.caps.rooms
    for cap in pool.caps:
        for name, amount in rooms[cap.name].items():
            yield f"cap {cap.name}: {render(max(0, amount), name)} of {render(cap.limits[name], name)} of {name} left"
    names = {cap.name for cap in pool.caps} | pool.shared_limits.keys()
    for state in period_states(context.snapshot):
        if state.cap.name in names:
            yield f"cap {state.cap.name}: {state.sentence()}"


def explain_group(snapshot: Snapshot, gang: Gang, out_of_time: Callable[[], float] | None = None) -> Explanation:
    """Explain where the members of a group that starts together run or go, or why nothing is bought for any of them.

    Args:
        snapshot: The input of the decision.
        gang: One of its groups.
        out_of_time: As for `explain_pod`.
    """
    subject = f"group {gang.name}"
    about = _about(gang)
    if not (gang.waiting or gang.coming or gang.promised) and gang.refusal is None:
        return Explanation(
            subject=subject, outcome="runs", details=(*about, *_places(Plan(now=snapshot.now), gang.pods))
        )
    plan = Planner(snapshot).plan(out_of_time)
    planned = next((group for group in plan.groups if group.identity == gang.identity), None)
    if planned is None or planned.reason:
        reason, message = ("", "") if planned is None else (planned.reason, planned.message)
        if planned is None and gang.refusal is not None:
            reason, message = gang.refusal.reason, gang.refusal.message
        details = (*_meaning(PodReason, reason), *about, on_one_line(message), *_page(reason))
        return Explanation(subject=subject, outcome="waits", reason=reason, details=details, has_no_place=True)
    places = _places(plan, gang.pods)
    if gang.coming:
        places.append(f"{len(gang.coming)} have a place before their controller creates them")
    where = ", ".join(f"{key} {value}" for key, value in planned.domain.items())
    price = f"its new nodes cost ${dollars(planned.hourly):.4f} an hour"
    details = (*about, *([f"domain: {where}"] if where else []), *places, price)
    return Explanation(subject=subject, outcome=f"has {planned.placed} of {planned.members} places", details=details)


def _about(gang: Gang) -> list[str]:
    """Return what is written about a group."""
    lines = [f"written as {gang.source}: {gang.total} members, {gang.minimum} of them start together"]
    if gang.places:
        request = next(filter(None, gang.places), "")
        bought = (
            f"on nodes that are bought for it, with label {labels.PROVISIONING_REQUEST}={request}" if request else ""
        )
        lines.append(" or ".join(filter(None, ("on nodes that are there" if "" in gang.places else "", bought))))
    elif gang.topology_keys:
        lines.append(f"all members share one value of {', '.join(gang.topology_keys)}")
    if gang.disrupts_all:
        lines.append("its members stop together: no node of theirs goes alone")
    return lines


def explain_request(snapshot: Snapshot, request: ProvisioningRequest) -> Explanation:
    """Explain the state of a ProvisioningRequest that looks for no room: booked, over, wrong, or of another program."""
    subject = f"ProvisioningRequest {request.namespace}/{request.name}"
    obstacle = obstacle_to(request, snapshot)
    if obstacle is not None:
        details = (*_meaning(RequestReason, obstacle.reason), on_one_line(obstacle.message))
        outcome = "fails" if obstacle.is_final else "waits"
        return Explanation(subject=subject, outcome=outcome, reason=obstacle.reason, details=details, has_no_place=True)
    outcome, *more = state_of(request, snapshot)
    return Explanation(subject=subject, outcome=outcome, details=tuple(more))


def _places(plan: Plan, pods: Iterable[Pod]) -> list[str]:
    """Return one line for each place that pods get or have."""
    places = {key: ("get", f"a new node, {claim.name}") for claim in plan.claims for key in claim.pods}
    places |= {binding.pod: ("fit", f"on existing node {binding.node}") for binding in plan.bindings}
    places |= {refusal.pod: ("have", f"no place [{refusal.reason}]") for refusal in plan.unschedulable}
    counts: dict[tuple[str, str], int] = {}
    for pod in pods:
        otherwise = ("run", f"on {pod.node_name}") if pod.node_name else ("wait", "for something other than a node")
        place = places.get(pod.key, otherwise)
        counts[place] = counts.get(place, 0) + 1
    return [
        f"{count} {_SINGULAR.get(verb, f'{verb}s') if count == 1 else verb} {rest}"
        for (verb, rest), count in counts.items()
    ]


def _launched(plan: Plan, pool: NodePool) -> list[str]:
    claims = [claim for claim in plan.claims if claim.node_pool == pool.name]
    pods = sum(len(claim.pods) for claim in claims)
    if not claims:
        return ["this plan launches nothing from it"]
    price = dollars(sum(claim.price for claim in claims))
    nodes, placed = f"{len(claims)} node{'s' * (len(claims) != 1)}", f"{pods} pod{'s' * (pods != 1)}"
    return [f"this plan launches {nodes} from it for {placed}, ${price:.4f} an hour"]


# Explanations of nodes: why one goes now or stays, what it costs, and when its budgets change.


def explain_node_now(snapshot: Snapshot, node: str, out_of_time: Callable[[], float] | None = None) -> Explanation:
    """Decide for the snapshot and explain the node's part, its cost, and which nodes use up its NodePool's budgets.

    Args:
        snapshot: The input of the decision.
        node: Name of a node, or of a claim without one.
        out_of_time: As for the explained decision (`disrupt`), so that both agree.
    """
    planner = Planner(snapshot)
    plan = disrupt(snapshot, planner, out_of_time, proves=False)
    explanation = explain_node(plan, node)
    state = next((state for state in state_nodes(snapshot) if state.name == node), None)
    if state is None or not state.is_managed:
        return explanation
    slow = _slow_drains(snapshot, plan, node)
    price = f"costs ${dollars(paid_price(state, snapshot)):.4f} an hour in NodePool {state.node_pool}"
    covered = coverage_of(snapshot).nodes.get(node)
    by = " and ".join(covered.taken) if covered is not None else ""
    details = [*explanation.details, *slow, f"{price}, covered by commitment {by}" if by else price]
    if explanation.reason == NodeReason.DELETING:
        members = members_of(planner.context.gangs)
        going = groups_leaving(members, state.pods, may_wait=state.claim is not None and _lets_groups_end(state.claim))
        details += [group.sentence for group in going]
    details += _of_reservation(state, snapshot)
    details += _of_hours(state, snapshot)
    if explanation.reason == NodeReason.PODS_UNSCHEDULABLE:
        details += _of_pods(planner, node)
    if explanation.reason == NodeReason.BUDGET:
        pools = {pool.name: pool for pool in cluster_status(snapshot).pools}
        details += _of_budgets(pools[state.node_pool])
    return msgspec.structs.replace(explanation, details=tuple(details))


def _slow_drains(snapshot: Snapshot, plan: DisruptionPlan, node: str) -> tuple[str, ...]:
    """Return which PodDisruptionBudgets make the drain of a node's command slow."""
    names = next((set(command.nodes) for command in plan.commands if node in command.nodes), set())
    states = state_nodes(snapshot)
    pods = [pod for state in states if state.name in names for pod in state.pods]
    leaving = [pod for state in states if state.is_marked_for_deletion(snapshot) for pod in state.pods]
    return tuple(
        f"PodDisruptionBudget {budget.name} lets {allowed} of the {count} pods on leaving nodes go at a time: "
        f"the drain takes {-(-count // allowed)} rounds, each until the moved pods are ready"
        for budget, count, allowed in DisruptionBudgets.of(snapshot).slow(pods, leaving)
        if allowed
    )


def _of_hours(state: StateNode, snapshot: Snapshot) -> Iterator[str]:
    """Return that the node leaves because its NodePool is closed, and what keeps it."""
    pool = next((pool for pool in snapshot.node_pools if pool.name == state.node_pool and pool.is_closed), None)
    if pool is None or state.claim is None:
        return
    yield f"NodePool {pool.name} {why_closed(pool)}: the node leaves within its budgets"
    grace_ends_them = pool.hours is not None and pool.hours.pods_that_stay == GRACE_PERIOD
    kept = objections(snapshot, [state.claim.name], grace_ends_them=grace_ends_them)
    yield from (f"{why}; the node stays {stays_until(pool)}" for why in kept.values())


def _of_reservation(state: StateNode, snapshot: Snapshot) -> Iterator[str]:
    """Return when the node's capacity reservation ends for it, if that is known."""
    identity = state.labels.get(labels.RESERVATION_ID, "")
    ends = (node_class.reservation_ends for node_class in snapshot.node_classes)
    leaves = next((end_times[identity] for end_times in ends if identity in end_times), None)
    if leaves is None:
        return
    is_block = state.labels.get(labels.RESERVATION_TYPE) == CAPACITY_BLOCK
    what = (
        f"leaves capacity block {identity}" if is_block else f"is on-demand once capacity reservation {identity} ends,"
    )
    soon = "; consolidation moves no pod to it before" if identity in ending_reservations(snapshot) else ""
    yield f"{what} at {leaves:%Y-%m-%d %H:%M} UTC{soon}"


def _lets_groups_end(claim: NodeClaim) -> bool:
    """Whether members of groups stay on a claim that leaves; the object of a dumped cluster says in a condition why it does."""
    condition = claim.conditions.get(DISRUPTION_REASON)
    has_bound = claim.termination_grace_period is not None
    return claim.lets_groups_end or (has_bound and condition is not None and condition.reason in GROUPS_END_FIRST)


def _of_pods(planner: Planner, node: str) -> Iterator[str]:
    """Return why the first pod without another place has none. If other nodes leave too, more pods may have no place."""
    results = planner.what_if([node], consolidation=True)
    displaced = set(results.displaced)
    stranded = next((pod for pod in results.plan.unschedulable if pod.pod in displaced), None)
    if stranded is None:
        yield "without the other nodes that go its pods would find places"
        return
    yield f"without this node pod {stranded.pod} lacks a place [{stranded.reason}]"
    yield from (f"  {line}" for line in stranded.message.splitlines())


def _of_budgets(pool: PoolStatus) -> Iterator[str]:
    allowance = ", ".join(f"{_number(count)} {reason}" for reason, count in sorted(pool.budgets.items()))
    yield f"the budgets let go now: {allowance}; other nodes come first where that is not 0"
    if pool.counted:
        yield f"places are taken by {', '.join(f'{counted.node} ({counted.why})' for counted in pool.counted)}"
    change = pool.next_change
    if change is not None:
        allowed = ", ".join(f"{_number(count)} {reason}" for reason, count in sorted(change.allowed.items()))
        yield f"the budgets change at {change.at:%Y-%m-%d %H:%M} UTC: {allowed}"


def _number(count: int | None) -> str:
    return "any" if count is None else str(count)
