"""Drains that pods or nodes block: nothing is lost, no pod is killed without need, and users are informed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play

DELETE_POOL = {"at": "6m", "delete": [{"kind": "NodePool", "name": "default"}]}


def a_budget(name: str, app: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def a_pool(**template: Any) -> dict[str, Any]:
    """The NodePool that goes; its nodes' spec by keyword."""
    pool = node_pool(weight=10)
    pool["spec"]["template"]["spec"] |= template
    return pool


def evicted(result: Result, app: str) -> list[str]:
    return [event["by"] for event in named(result, "podEvicted") if event["pod"].startswith(f"default/{app}-")]


POISON = (
    deployment(2, "aaa", "500m"),
    a_budget("one", "aaa", maxUnavailable=1),
    a_budget("two", "aaa", maxUnavailable=1),
    deployment(4, "zzz", "500m"),
)
"""Two pods that two budgets select, which the eviction API answers with an error, and four that nothing protects."""


def test_a_pod_that_cannot_be_evicted_keeps_only_itself(tmp_path: Path) -> None:
    """If this failed, one pod with two budgets would keep all the pods of its node, forever."""
    other = {**node_pool(), "metadata": {"name": "other"}}
    result = play(tmp_path, a_pool(), other, *POISON, steps=[DELETE_POOL], duration="15m")
    assert (evicted(result, "zzz"), evicted(result, "aaa")) == (["eviction"] * 4, [])
    assert result.summary["nodesTerminated"] == 0
    assert_lawful(result)


def test_at_the_deadline_only_who_could_not_be_evicted_is_forced(tmp_path: Path) -> None:
    """If this failed, the neighbours of a stuck pod would be killed without one try, all in one second."""
    pool = a_pool(terminationGracePeriod="2m", expireAfter="6m")
    result = play(tmp_path, pool, *POISON, duration="10m")
    assert (evicted(result, "zzz"), evicted(result, "aaa")) == (["eviction"] * 4, ["forced"] * 2)
    assert result.summary["nodesTerminated"] == 1
    assert_lawful(result)


def test_a_node_that_a_finalizer_keeps_is_let_be(tmp_path: Path) -> None:
    """If this failed, somebody's finalizer on one Node would cost hundreds of calls a minute, forever."""
    empty = {"at": "6m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}}
    objects = (node_pool(), deployment(1, cpu="12"))
    (joined,) = named(play(tmp_path, *objects, steps=[empty], duration="5m"), "nodeJoined")
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": joined["node"], "finalizers": ["example.com/hold"]},
    }
    steps = [{"at": "5m", "apply": [node]}, empty]
    result = play(tmp_path, *objects, steps=steps, duration="40m")
    reasons = [(d["kind"], d["reason"]) for d in result.decisions if d["reason"].endswith("Finalizers")]
    assert reasons == [("terminate", "AwaitingFinalizers"), ("forget", "NodeHeldByFinalizers")]
    assert result.summary["invocations"]["execute"] < 240, "six a minute; without patience it was 27 a minute"


def test_an_expired_node_that_can_never_be_emptied_is_not_begun(tmp_path: Path) -> None:
    """If this failed, expiry would close a node forever for the sake of a pod whose budget never lets it go."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "5m"
    single = a_budget("single", "aaa", minAvailable=1)
    result = play(tmp_path, pool, deployment(1, "aaa", "500m"), single, deployment(3, "zzz", "500m"), duration="20m")
    closed = happened(result, "nodeTainted")
    assert (result.summary["nodesLaunched"], named(result, "podEvicted"), closed) == (1, [], [])
    told = {(d["reason"], d["message"]) for d in result.decisions if d["kind"] == "skip"}
    assert [reason for reason, message in told if "minAvailable 1 wants 1 of 1 pod" in message] == ["ExpiredButBlocked"]
    assert_lawful(result)


def test_a_drain_that_a_budget_blocks_is_reported_and_cancelled(tmp_path: Path) -> None:
    """If this failed, a node that may stay would stay cordoned and half empty until somebody notices."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "10m"
    running, too_large = deployment(2, "aaa", "500m"), deployment(1, "bbb", "99")
    for found in (running, too_large):
        found["spec"]["template"]["metadata"]["labels"]["tier"] = "web"
    most = a_budget("most", "", minAvailable=2)
    most["spec"]["selector"] = {"matchLabels": {"tier": "web"}}
    result = play(tmp_path, pool, running, too_large, most, deployment(1, "zzz", "100m"), duration="85m")
    told = [d["reason"] for d in result.decisions if d["kind"] in ("drain", "abandon")]
    assert evicted(result, "aaa") == []
    assert [reason for reason in told if reason.startswith("Drain")] == ["DrainSlow", "DrainBlocked"]
    opened = [event for event in named(result, "nodeUntainted") if event["key"] == "karpenter.sh/disrupted"]
    assert [event["by"] for event in opened] == ["program"]
    assert_lawful(result)


def test_a_single_replica_moves_without_a_moment_of_absence(tmp_path: Path) -> None:
    """If this failed, a node with such a pod could never be emptied, or only by an outage."""
    other = {**node_pool(), "metadata": {"name": "other"}}
    single = deployment(1, "aaa", "500m")
    single["spec"]["template"]["metadata"]["annotations"] = {"fleetwright.dev/surge": "true"}
    budget = a_budget("single", "aaa", minAvailable=1)
    result = play(tmp_path, a_pool(), other, single, budget, steps=[DELETE_POOL], duration="15m")
    story = [(e.event, e.fields["pod"]) for e in result.events if e.event in ("podReady", "podEvicted", "podDeleted")]
    first, second = (pod for event, pod in story if event == "podReady")
    assert story.index(("podReady", second)) < story.index(("podDeleted", first))
    assert (result.summary["nodesTerminated"], result.summary["nodesAtEnd"]) == (1, 1)
    assert [d["reason"] for d in result.decisions if d["reason"].startswith("Surge")] == ["SurgeRestart"]
    assert_lawful(result)


def test_an_expired_node_is_replaced_first_although_consolidation_is_switched_off(tmp_path: Path) -> None:
    """If this failed, a budget against consolidation would keep nodes forever, and expiry would be an outage for a minute."""
    pool = node_pool()
    pool["spec"]["template"]["spec"]["expireAfter"] = "20m"
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "1"}, {"nodes": "0", "reasons": ["Underutilized"]}]
    result = play(tmp_path, pool, deployment(2, "aaa", "500m"), duration="34m")
    first = named(result, "nodeReady")[0]["node"]
    story = [
        event.event
        for event in result.events
        if event.event in ("nodeReady", "podEvicted")
        or (event.event, event.fields.get("reason")) == ("nodeTainted", "Expired")
    ]
    assert story[:5] == ["nodeReady", "nodeTainted", "nodeReady", "podEvicted", "podEvicted"]
    assert {found["node"] for found in named(result, "podEvicted")} == {first}
    assert_lawful(result)
