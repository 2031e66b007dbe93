"""Users, EC2 and other controllers change things while a target is under way: it goes on or is planned again."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from core import labels
from simulator.record import Event
from simulator.world import Result
from tests.builders import a_class_manifest
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play

NODES: Final = 24
HALVED_AT: Final = 360
ATTACKED_AT: Final = 460
"""Seconds. One wave has begun, and three are still to come."""

REPLACED_WITHIN: Final = 0.11
"""Seconds from an eviction until the controller has created the pod that takes its place."""


def a_pool(**disruption: Any) -> dict[str, Any]:
    """The NodePool, of nodes for two pods each, two of which may go at a time."""
    pool = node_pool(weight=10)
    pool["spec"]["disruption"] |= {"budgets": [{"nodes": "2"}], "consolidateAfter": "30s", **disruption}
    return restricted(pool, labels.INSTANCE_TYPE, "test.medium")


def restricted(pool: dict[str, Any], key: str, value: str) -> dict[str, Any]:
    """The NodePool with one more requirement."""
    changed = deepcopy(pool)
    changed["spec"]["template"]["spec"]["requirements"].append({"key": key, "operator": "In", "values": [value]})
    return changed


def other(weight: int) -> dict[str, Any]:
    """A second NodePool of the same kind."""
    manifest = a_pool()
    manifest["metadata"]["name"] = "other"
    manifest["spec"]["weight"] = weight
    return manifest


def limited(cpu: str) -> dict[str, Any]:
    """The NodePool with a limit."""
    manifest = a_pool()
    manifest["spec"]["limits"] = {"cpu": cpu}
    return manifest


def a_budget(**spec: Any) -> dict[str, Any]:
    """A PodDisruptionBudget of all pods."""
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": "web", "namespace": "default"}
    spec = {"selector": selector, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def attacked(folder: Path, *attack: dict[str, Any], extra: tuple[dict[str, Any], ...] = ()) -> Result:
    """A run in which nodes with two pods each lose half of them, so that eight go in four waves, and the attack.

    A step of the attack says how many seconds `after` its begin it comes.
    """
    steps: list[dict[str, Any]] = [
        {"at": f"{HALVED_AT}s", "scale": {"kind": "Deployment", "name": "web", "replicas": NODES}},
        {"at": f"{HALVED_AT + 20}s", "apply": [a_pool()]},
    ]
    for step in attack:
        rest = {key: value for key, value in step.items() if key != "after"}
        steps.append({"at": f"{ATTACKED_AT + step.get('after', 0)}s", **rest})
    objects = (a_pool(consolidateAfter="Never"), *extra, deployment(2 * NODES, cpu="1500m"))
    result = play(folder, *objects, steps=steps, duration="30m")
    assert result.warnings == ()
    assert result.summary["podsPending"] == 0
    assert_lawful(result)
    return result


def second(result: Result, event: Event) -> float:
    """When it happened, in seconds."""
    return (datetime.fromisoformat(event.t) - datetime.fromisoformat(result.events[0].t)).total_seconds()


def evicted_again(result: Result) -> list[dict[str, Any]]:
    """The evictions of pods that took the place of evicted ones.

    Not those that took the place of pods on a node that a user deleted: no plan foresees them, so they may be on any node.
    """
    deleted = {event.fields["node"] for event in happened(result, "nodeDeleted") if event.fields["by"] == "user"}
    displaced = [second(result, event) for event in happened(result, "podEvicted") if event.fields["node"] in deleted]
    new = {
        event.fields["pod"]
        for event in happened(result, "podCreated")
        if (created := second(result, event)) > HALVED_AT
        and not any(at <= created <= at + REPLACED_WITHIN for at in displaced)
    }
    return [eviction for eviction in named(result, "podEvicted") if eviction["pod"] in new]


def going(result: Result, *, since: float = 0) -> list[str]:
    """The nodes that were tainted to go, in order."""
    return [event.fields["node"] for event in happened(result, "nodeTainted") if second(result, event) >= since]


def joined_late(result: Result) -> set[str]:
    """The nodes that joined after the attack."""
    return {event.fields["node"] for event in happened(result, "nodeJoined") if second(result, event) >= ATTACKED_AT}


NOTHING: Final = "nothing"
CLOSED: Final = "budgets close and open"
NEVER_NOW: Final = {"delete": [{"kind": "PodDisruptionBudget", "name": "web"}]}

GOES_ON: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    NOTHING: (),
    "limits below what runs": ({"apply": [limited("4")]},),
    "a requirement that all nodes fulfil": ({"apply": [restricted(a_pool(), labels.ARCH, "amd64")]},),
    "a heavier pool": ({"apply": [other(80)]},),
    CLOSED: ({"apply": [a_pool(budgets=[{"nodes": "0"}])]}, {"after": 240, "apply": [a_pool()]}),
    "a window closes and opens": (
        {
            "apply": [
                a_pool(budgets=[{"nodes": "2"}, {"nodes": "0", "schedule": "8 0 * * *", "duration": "5m"}]),
            ]
        },
    ),
    "consolidation stops and starts": (
        {"apply": [a_pool(consolidateAfter="Never")]},
        {"after": 240, "apply": [a_pool()]},
    ),
    "a budget for one eviction at a time": ({"apply": [a_budget(maxUnavailable=1)]},),
    "a budget for none, and its end": ({"apply": [a_budget(maxUnavailable=0)]}, {"after": 300, **NEVER_NOW}),
    "prices": ({"price": {"capacityType": "spot", "factor": 2.5}},),
    "Node objects are deleted": ({"deleteNodes": {"fraction": 0.2}},),
}
"""What changes no node's need: the same half of the nodes is there in the end."""


SLOW: Final = (
    "a requirement that all nodes fulfil",
    "a window closes and opens",
    "consolidation stops and starts",
    "a budget for one eviction at a time",
)
"""Like another attack but for what the unit tests of budgets and of drift tell apart."""


@cache
def attacked_by(name: str) -> Result:
    """The run of an attack by its name; several laws ask about one run."""
    with TemporaryDirectory() as folder:
        return attacked(Path(folder), *GOES_ON[name])


@pytest.mark.ci
@pytest.mark.parametrize(
    "attack", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in GOES_ON]
)
def test_a_target_goes_on_and_no_pod_moves_twice(attack: str) -> None:
    """If this failed, a change in the middle would stop a target half-way, or move its pods again."""
    result = attacked_by(attack)
    assert evicted_again(result) == []
    assert (result.summary["nodesAtEnd"], result.summary["nodesLaunched"]) == (NODES // 2, NODES)


@pytest.mark.ci
def test_while_budgets_are_closed_no_node_of_the_target_goes() -> None:
    """If this failed, a stored target would go on past the window in which it may."""
    result = attacked_by(CLOSED)
    at = [second(result, event) for event in happened(result, "nodeTainted")]
    assert [moment for moment in at if ATTACKED_AT + 2 < moment < ATTACKED_AT + 240] == []
    assert len([moment for moment in at if moment > ATTACKED_AT + 240]) >= 4


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["Node", "Pod"])
def test_what_may_not_be_disrupted_any_more_stays_where_it_is(tmp_path: Path, kind: str) -> None:
    """If this failed, a stored target would overrule the annotation, or wait for its node and save nothing else."""
    last = named(attacked_by(NOTHING), "podEvicted")[-1]
    name = last["node"] if kind == "Node" else last["pod"].partition("/")[2]
    metadata: dict[str, Any] = {"name": name, "annotations": {labels.DO_NOT_DISRUPT: "true"}}
    annotated: dict[str, Any] = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    if kind == "Pod":
        metadata["namespace"] = "default"
        annotated["spec"] = deployment(1, cpu="1500m")["spec"]["template"]["spec"]
    result = attacked(tmp_path, {"apply": [annotated]})
    assert last["node"] not in going(result)
    assert evicted_again(result) == []
    assert result.summary["nodesAtEnd"] <= NODES // 2 + 1


@pytest.mark.ci
def test_pods_that_were_moved_leave_only_the_nodes_that_ec2_takes(tmp_path: Path) -> None:
    """If this failed, an interruption would begin a second round of moves."""
    result = attacked(tmp_path, {"interrupt": {"fraction": 0.3}})
    tainted = [event.fields for event in happened(result, "nodeTainted")]
    taken = {event["node"] for event in tainted if event["reason"] == "SpotInterrupted"}
    assert taken
    assert {event["node"] for event in evicted_again(result)} <= taken


CHANGED_CLASS: Final = a_class_manifest(tags={"team": "blue"})


@pytest.mark.ci
@pytest.mark.parametrize(
    "change", [CHANGED_CLASS, restricted(a_pool(), labels.CAPACITY_TYPE, "on-demand")], ids=["class", "requirements"]
)
def test_a_target_whose_nodes_drift_becomes_a_rollout_that_replaces_each_node_once(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """If this failed, the target would go on to nodes that all have to go, or new nodes would go again."""
    result = attacked(tmp_path, {"apply": [change]})
    assert result.summary["nodesAtEnd"] == NODES // 2
    assert joined_late(result).isdisjoint(going(result))
    assert len(joined_late(result)) == NODES // 2
    assert len(going(result)) == len(set(going(result))) == NODES


def test_the_nodes_of_a_pool_that_is_deleted_midway_go_and_those_of_another_come(tmp_path: Path) -> None:
    """If this failed, the rest of the target would move pods between nodes that all end."""
    result = attacked(tmp_path, {"delete": [{"kind": "NodePool", "name": "default"}]}, extra=(other(1),))
    new = joined_late(result)
    assert new.isdisjoint(going(result))
    assert result.summary["nodesAtEnd"] == len(new)
    late = [event for event in evicted_again(result) if event["node"] in new]
    assert late == []
    assert timedelta(seconds=second(result, happened(result, "nodeDeleted")[-1])) < timedelta(minutes=20)
