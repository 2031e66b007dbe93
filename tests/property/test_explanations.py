"""Explanations never contradict the plan: random clusters, each asked for the plan and then about its pods and nodes."""

from __future__ import annotations

from collections import Counter

import pytest

from core.disruption import disrupt
from core.explain import Explanation, explain_node_now, explain_pod
from core.model.plan import DisruptionPlan, Plan
from core.model.snapshot import Snapshot
from core.reasons.nodes import NodeReason
from core.scheduling import Planner, schedule
from tests.property.naive.fuzz import improving
from tests.property.naive_disruption.worlds import random_world
from tests.property.naive_manifests.clusters import CALM, HOSTILE, cluster

ASKED_MAX = 3
"""The most explained pods with one outcome in a cluster: each explanation plans the whole cluster again."""


def fates(plan: Plan) -> dict[str, tuple[str, str]]:
    """The outcome and the reason that the plan gives each of its pods, in the words of an explanation."""
    outcomes = {binding.pod: (f"fits on existing node {binding.node}", "") for binding in plan.bindings}
    outcomes |= {pod: (f"needs a new node, {claim.name}", "") for claim in plan.claims for pod in claim.pods}
    return outcomes | {entry.pod: ("is unschedulable", entry.reason) for entry in plan.unschedulable}


def contradictions_of_pods(snapshot: Snapshot) -> tuple[list[str], Counter[str]]:
    """Pods whose explanation contradicts the plan, and the number of explained pods by outcome."""
    plan = schedule(snapshot)
    expected, messages = fates(plan), {entry.pod: entry.message for entry in plan.unschedulable}
    explained: Counter[str] = Counter()
    contradictions = []
    for pod in sorted(snapshot.pods, key=lambda pod: pod.key):
        outcome, reason = expected.get(pod.key, ("", ""))
        fate = outcome.partition(",")[0].partition(" node ")[0]
        if explained[fate] == ASKED_MAX:
            continue
        explained[fate] += 1
        explanation = explain_pod(snapshot, pod)
        if outcome and (explanation.outcome, explanation.reason) != (outcome, reason):
            contradictions.append(f"{explanation} -- but the plan says {outcome} {reason}")
        if explanation.has_no_place != (pod.key in messages):
            contradictions.append(f"{explanation} -- and has_no_place is {explanation.has_no_place}")
        finding = Planner(snapshot).finding(pod.key) if pod.key in messages else None
        if finding is not None and finding.message != messages[pod.key]:
            contradictions.append(f"{finding.message} -- but the plan says {messages[pod.key]}")
    return contradictions, explained


def contradictions_of_nodes(snapshot: Snapshot) -> tuple[list[str], Counter[str]]:
    """Nodes whose explanation contradicts the decision, and the number of explained nodes by outcome."""
    plan = disrupt(snapshot)
    contradictions = []
    explained: Counter[str] = Counter()
    for node in snapshot.nodes:
        explanation = explain_node_now(snapshot, node.name)
        explained[explanation.outcome.partition(":")[0]] += 1
        if not _agrees(explanation, plan, node.name):
            contradictions.append(f"{explanation} -- but the decision is {plan.commands} {plan.blocked}")
    return contradictions, explained


def _agrees(explanation: Explanation, plan: DisruptionPlan, node: str) -> bool:
    command = next((command for command in plan.commands if node in command.nodes), None)
    if command is not None:
        return (explanation.outcome, explanation.reason) == ("goes", command.reason)
    blocked = next((blocked.reason for blocked in plan.blocked if blocked.node == node), NodeReason.NOT_MANAGED)
    return explanation.outcome.startswith("stays") and explanation.reason == blocked


@pytest.mark.ci
def test_what_explain_says_of_a_pod_is_what_the_plan_says() -> None:
    explained: Counter[str] = Counter()
    for seed in range(6):
        for difficulty in (CALM, HOSTILE):
            contradictions, counted = contradictions_of_pods(cluster(seed, difficulty))
            assert contradictions == [], f"seed {seed}"
            explained += counted
    assert set(explained) >= {"needs a new node", "fits on existing", "is unschedulable", ""}


@pytest.mark.ci
def test_what_explain_says_of_a_pod_is_what_a_searched_plan_says() -> None:
    for seed in range(3):
        assert contradictions_of_pods(improving(cluster(seed, HOSTILE)))[0] == [], f"seed {seed}"


@pytest.mark.ci
def test_what_explain_says_of_a_node_is_what_the_decision_says() -> None:
    explained: Counter[str] = Counter()
    for seed in range(6):
        contradictions, counted = contradictions_of_nodes(random_world(seed))
        assert contradictions == [], f"seed {seed}"
        explained += counted
    assert set(explained) == {"goes", "stays"}


def test_explain_node_is_braked_as_the_decision_is() -> None:
    """Otherwise, `explain NODE` describes a search that `consolidate` had no time for, and ignores --time-budget."""
    times = 0

    def over() -> float:
        nonlocal times
        times += 1
        return 1.0

    for seed in range(6):
        snapshot = random_world(seed)
        plan = disrupt(snapshot, out_of_time=over)
        times = 0
        for node in snapshot.nodes:
            explanation = explain_node_now(snapshot, node.name, over)
            assert _agrees(explanation, plan, node.name), f"seed {seed}: {explanation}"
        if times:
            return
    raise AssertionError("no search ever asked the clock")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 300, 20))
def test_many_explanations(first: int) -> None:
    for seed in range(first, first + 20):
        clusters = (cluster(seed, CALM), cluster(seed, HOSTILE), improving(cluster(seed, HOSTILE)), random_world(seed))
        for snapshot in clusters:
            assert contradictions_of_pods(snapshot)[0] == [], f"seed {seed}"
        assert contradictions_of_nodes(random_world(seed))[0] == [], f"seed {seed}"
