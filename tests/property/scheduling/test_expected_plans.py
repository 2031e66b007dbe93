"""Whole plans, what-ifs and explanations of small random clusters, compared with `expected/plans.txt`.

`python -m tests.expected tests.property.scheduling.test_expected_plans` writes the texts. Each cluster is the smallest of
some hundreds that runs branches which no earlier one of the list runs. Each plan is judged by the naive judge as well, so that
a text shows no plan that breaks a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import pytest

from core.explain import explain_pod
from core.model.plan import Plan, PlannedClaim
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot
from core.scheduling import Planner, schedule
from core.scheduling.results import SchedulingResults
from tests.expected import Expected
from tests.property.naive.extras import rich_cluster
from tests.property.naive.fuzz import improving
from tests.property.naive.left_over import violations
from tests.property.naive.limits import (
    address_violations,
    coverage_violations,
    with_addresses,
    with_commitments,
    with_quotas,
)
from tests.property.naive.tight import tight_cluster
from tests.property.packing.clusters import a_ruled_cluster
from tests.rendered import rendered, said, wrapped

MOST_PODS: Final = 9
_LEAVING: Final = 2

RICH: Final = (
    *(21, 133, 73, 16, 132, 111, 24, 129, 27, 86, 135, 51, 89, 36, 53, 112, 49, 3, 83, 68, 144, 20, 98, 63, 90, 96),
    *(93, 45, 99, 87, 101, 124, 60, 26, 38, 65, 91, 146, 125, 94, 42, 134, 138, 9, 118, 59, 76, 95),
)
TIGHT: Final = (0, 1, 2)
RULED: Final = (0, 1, 2)
COMMITTED: Final = (31, 16, 38, 42)
SCARCE: Final = (31, 0, 41, 21, 15)
LIMITED: Final = (20, 0, 2, 31, 4, 29)

_WITH: Final[dict[str, Callable[[Random, Snapshot], Snapshot]]] = {
    "committed": with_commitments, "scarce": with_addresses, "limited": with_quotas,
}  # fmt: skip
"""What is added to a rich cluster: Savings Plans and reserved instances, subnets with few addresses, vCPU quotas."""


def cluster(kind: str, seed: int) -> Snapshot:
    """The cluster of a case."""
    if kind == "rich":
        return rich_cluster(seed, MOST_PODS)
    if kind in _WITH:
        return _WITH[kind](Random(seed), rich_cluster(seed, MOST_PODS))  # noqa: S311 - a seeded draw
    return tight_cluster(seed) if kind == "tight" else a_ruled_cluster(seed, steps=0)


@cache
def plans(kind: str, seed: int) -> tuple[Plan, Plan]:
    """The plan, and the one with a search for cheaper nodes."""
    snapshot = cluster(kind, seed)
    return schedule(snapshot), schedule(improving(snapshot))


def text(kind: str, seed: int) -> str:
    """All that scheduling says about a cluster."""
    snapshot = cluster(kind, seed)
    plan, cheaper = plans(kind, seed)
    lines = [wrapped(f"cluster: {outline(snapshot)}"), *_plan_lines(plan)]
    same = cheaper.claims == plan.claims and cheaper.bindings == plan.bindings
    bound = f"with a search: ${cheaper.cost.hourly} an hour, at least {cheaper.cost.lower_bound}"
    lines += [f"{bound}, the same nodes"] if same else [bound, *map(_short, cheaper.claims), *_places(cheaper)]
    lines += _what_ifs(snapshot)
    lines += [str(explain_pod(snapshot, pod)) for pod in _explained(snapshot, plan)]
    return "\n".join(lines)


def outline(snapshot: Snapshot) -> str:
    """What the cluster has: counts, and the fields of its pods that hold rules."""
    pending = [pod for pod in snapshot.pods if not pod.node_name]
    rules = sorted({name for pod in pending for name in _rules(pod.spec)})
    extras = [name for name in ("overlays", "buffers", "budgets", "daemon_sets") if getattr(snapshot, name)]
    extras += [name for name in ("subnet_addresses", "vcpu_quotas") if getattr(snapshot, name)]
    extras += ["commitments"] * bool(snapshot.options.commitments)
    extras += ["marked nodes"] * bool(snapshot.marked_for_deletion)
    shown = f"{len(pending)} pending pods, {len(snapshot.node_pools)} NodePools, {len(snapshot.nodes)} nodes"
    return f"{shown}; pods with {' '.join(rules) or 'no rules'}; {' '.join(extras) or 'nothing else'}"


def _rules(spec: PodSpec) -> Iterator[str]:
    for field in msgspec.structs.fields(PodSpec):
        if field.name != "requests" and getattr(spec, field.name) != field.default:
            yield field.name


def _plan_lines(plan: Plan) -> list[str]:
    claims = [rendered(f"claim {claim.name}", claim, ("name", "node_class")) for claim in plan.claims]
    return [*claims, *_places(plan, messages=True)]


def _places(plan: Plan, *, messages: bool = False) -> list[str]:
    lines = [f"{binding.pod} on {binding.node}" for binding in plan.bindings]
    lines += [rendered(f"buffer {room.buffer}", room, ("buffer",)) for room in plan.buffers]
    nowhere: dict[tuple[str, str], list[str]] = {}
    for unplaced in plan.unschedulable:
        nowhere.setdefault((unplaced.reason, unplaced.message if messages else ""), []).append(unplaced.pod)
    return lines + [wrapped(f"{said(pods)} nowhere: {': '.join(filter(None, why))}") for why, pods in nowhere.items()]


def _short(claim: PlannedClaim) -> str:
    shown = f"{claim.name}: {said(claim.instance_types)} in {said(claim.zones)} {said(claim.capacity_types)}"
    return wrapped(f"{shown}, {claim.price}, for {said(claim.pods)} {said(claim.buffer_pods)}")


def _what_ifs(snapshot: Snapshot) -> list[str]:
    planner = Planner(snapshot)
    lines = []
    for number, node in enumerate(snapshot.nodes[:_LEAVING]):
        results = planner.what_if(
            [node.name], consolidation=number % 2 == 0, closed=[n.name for n in snapshot.nodes[3:4]]
        )
        lines += [f"without {node.name}:", *_what_if(results)]
    return lines


def _what_if(results: SchedulingResults) -> list[str]:
    rest = rendered("moved", results, ("plan",))
    return [
        "  " + line.replace("\n", "\n  ") for line in (*map(_short, results.plan.claims), *_places(results.plan), rest)
    ]


def _explained(snapshot: Snapshot, plan: Plan) -> list[Pod]:
    """A pod of each reason, one with a new node, one on a node, and one that is not pending."""
    by_reason = {unplaced.reason: unplaced.pod for unplaced in reversed(plan.unschedulable)}
    keys = {
        *by_reason.values(),
        *(b.pod for b in plan.bindings[:1]),
        *(p for claim in plan.claims[:1] for p in claim.pods[:1]),
    }
    waiting = {pod.key for pod in snapshot.pods if not pod.node_name}
    others = [pod for pod in snapshot.pods if pod.key not in waiting][:1]
    return [*others, *(pod for pod in snapshot.pods if pod.key in keys)]


def _case(kind: str, seed: int) -> Callable[[], str]:
    return lambda: text(kind, seed)


_SEEDS: Final = {
    "rich": RICH, "tight": TIGHT, "ruled": RULED, "committed": COMMITTED, "scarce": SCARCE, "limited": LIMITED,
}  # fmt: skip
_CASES: Final = {f"{kind} {seed}": (kind, seed) for kind, seeds in _SEEDS.items() for seed in seeds}
EXPECTED: Final = Expected(
    Path(__file__).parent / "expected" / "plans.txt", {name: _case(*case) for name, case in _CASES.items()}
)


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(_CASES))
def test_a_plan_is_the_expected_one_and_breaks_no_rule(name: str) -> None:
    """If this failed, a change would alter a decision, its reason or its wording, and nobody would have looked at it."""
    snapshot = cluster(*_CASES[name])
    for plan in plans(*_CASES[name]):
        assert [
            *violations(snapshot, plan),
            *coverage_violations(snapshot, plan),
            *address_violations(snapshot, plan),
        ] == []
    assert EXPECTED.cases[name]() == EXPECTED.text(name)
