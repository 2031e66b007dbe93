"""Explanations of more than one pod: where a workload's pods go, and what a NodePool can launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from core.explain import Explanation, explain_pod
from core.model.node_pool import NodePool
from core.model.plan import Plan
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.values.quantity import dollars, render
from core.scheduling import Planner
from core.scheduling.capacity.nodeclaim_template import why_unusable
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation.pool_offers import pool_offers
from core.scheduling.explanation.wording import own_conflict

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
    lost = {found.pod for found in plan.unschedulable}
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
    if why:
        return Explanation(subject=subject, outcome=why)
    context = SchedulingContext(snapshot)
    template = next(template for template in context.templates if template.pool is pool)
    if not template.mask:
        return Explanation(subject=subject, outcome="launches nothing", details=(own_conflict(template),))
    offers = pool_offers(template)
    names, rest = offers.types[:_TYPES_SHOWN], len(offers.types) - _TYPES_SHOWN
    lines = [f"instance types, cheapest first: {', '.join(names)}{f' and {rest} more' if rest > 0 else ''}"]
    lines += [f"minValues is not met: its requirements leave {n} values of {key}" for key, n in offers.missing.items()]
    left = context.remaining.limits(())[template.index].left
    lines += [
        f"limit of {name}: {render(max(0, amount), name)} of {render(pool.limits[name], name)} left"
        for name, amount in sorted(left.items())
    ]
    lines += [f"pods need a toleration of {taint}" for taint in pool.taints]
    lines += _launched(Planner(snapshot, context).plan(out_of_time), pool)
    count = f"{len(offers.types)} instance type{'' if len(offers.types) == 1 else 's'}"
    return Explanation(
        subject=subject, outcome=f"can launch {count}, from ${dollars(offers.price):.4f} an hour", details=tuple(lines)
    )


def _places(plan: Plan, pods: Iterable[Pod]) -> list[str]:
    """Return one line for each place that pods get or have."""
    places = {key: ("get", f"a new node, {claim.name}") for claim in plan.claims for key in claim.pods}
    places |= {binding.pod: ("fit", f"on existing node {binding.node}") for binding in plan.bindings}
    places |= {found.pod: ("have", f"no place [{found.reason}]") for found in plan.unschedulable}
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
