"""Claims as NodeClaims of the cluster: what `kubectl get nodeclaims -w` shows, and what deleting one does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import simulator.world
from core import labels
from core.api.older_versions import problems
from core.manifests.wire import resources
from simulator.world import Result, World, open_world
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

CONDITIONS = ("Launched", "Registered", "Initialized", "Ready")
BY_HAND: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "mine"},
    "spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
    },
}


def applied(result: Result) -> list[dict[str, Any]]:
    """The NodeClaims as they were written, in order."""
    return [event["object"] for event in named(result, "objectApplied") if event["kind"] == "NodeClaim"]


def conditions_of(obj: dict[str, Any]) -> dict[str, str]:
    return {c["type"]: c["status"] for c in (obj.get("status") or {}).get("conditions") or ()}


def with_hook(monkeypatch: pytest.MonkeyPatch, hook: Any) -> None:
    """Call `hook` with the world before it is played."""

    @contextmanager
    def hooked(*arguments: Any, **options: Any) -> Iterator[World]:
        with open_world(*arguments, **options) as world:
            hook(world)
            yield world

    monkeypatch.setattr(simulator.world, "open_world", hooked)


def test_a_node_claim_goes_the_way_of_its_node(tmp_path: Path) -> None:
    """It appears with the launch, becomes ready step by step as Karpenter's do, and goes when the node is gone."""
    steps = [{"at": "6m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}}]
    result = play(tmp_path, node_pool(), deployment(1), steps=steps, duration="20m")
    objects = applied(result)
    joined, launched = named(result, "nodeJoined")[0], named(result, "instanceLaunched")[0]
    assert {obj["metadata"]["name"] for obj in objects} == {joined["nodeClaim"]}
    assert [problem for obj in objects for problem in problems(obj)] == []
    seen = [tuple(conditions_of(obj).get(kind, "") for kind in CONDITIONS) for obj in objects if conditions_of(obj)]
    steps_seen = list(dict.fromkeys(seen))
    booting, ready = ("True", "Unknown", "Unknown", "Unknown"), ("True", "True", "True", "True")
    assert [step for step in steps_seen if step != ("True", "True", "Unknown", "Unknown")] == [booting, ready]
    last = next(obj for obj in reversed(objects) if conditions_of(obj)["Ready"] == "True")
    assert last["status"]["nodeName"] == joined["node"]
    assert last["status"]["providerID"] == joined["providerID"]
    assert last["status"]["imageID"]
    assert last["status"]["capacity"]["pods"] == "110"
    assert last["metadata"]["labels"][labels.INSTANCE_TYPE] == launched["instanceType"]
    assert last["metadata"]["labels"][labels.CAPACITY_TYPE] == launched["capacityType"]
    deleted = [event for event in named(result, "objectDeleted") if event["kind"] == "NodeClaim"]
    assert [event["name"] for event in deleted] == [joined["nodeClaim"]]
    assert conditions_of(objects[-1])["InstanceTerminating"] == "True"
    assert_lawful(result)


@pytest.mark.parametrize("has_audit_log", [True, False])
def test_a_deleted_node_claim_is_drained_and_terminated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_audit_log: bool
) -> None:
    """`kubectl delete nodeclaim` lets one node go, its pods within their budgets; another takes its place."""
    if not has_audit_log:
        monkeypatch.setattr("simulator.events.Pump.audit", lambda *_: None)
    before = play(tmp_path, node_pool(), deployment(2, cpu="12"), duration="3m")
    name = named(before, "nodeJoined")[0]["nodeClaim"]
    steps = [{"at": "6m", "delete": [{"kind": "NodeClaim", "name": name}]}]
    result = play(tmp_path, node_pool(), deployment(2, cpu="12"), steps=steps, duration="22m")
    assert (result.summary["nodesTerminated"], result.summary["nodesAtEnd"], result.summary["podsPending"]) == (1, 2, 0)
    assert {event["by"] for event in named(result, "podEvicted")} == {"eviction"}
    deleted = [
        event for event in result.events if event.event == "objectDeleted" and event.fields["kind"] == "NodeClaim"
    ]
    assert [event.fields["name"] for event in deleted] == [name]
    tainted = next(event for event in result.events if event.event == "nodeTainted" and event.fields.get("reason"))
    assert tainted.fields["reason"] == "NodeClaimDeleted"
    assert_lawful(result)


def test_a_lost_mirror_is_written_again_and_takes_no_node_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is the source of truth: a NodeClaim that vanishes despite its finalizer costs no node."""

    def lose(world: World) -> None:
        def strip() -> None:
            for obj in world.cluster.objects("NodeClaim"):
                name = obj["metadata"]["name"]
                world.cluster._store.patch(resources.NODE_CLAIMS, name, {"metadata": {"finalizers": None}})
                world.cluster._store.delete(resources.NODE_CLAIMS, name)

        world.clock.after(timedelta(minutes=6), strip)

    with_hook(monkeypatch, lose)
    result = play(tmp_path, node_pool(), deployment(2, cpu="12"), duration="18m")
    assert (result.summary["nodesTerminated"], result.summary["nodesAtEnd"]) == (0, 2)
    last = {obj["metadata"]["name"]: obj for obj in applied(result)}
    lost = [event for event in result.events if event.event == "objectDeleted" and event.fields["kind"] == "NodeClaim"]
    again = [event for event in result.events if event.event == "objectApplied" and event.fields["kind"] == "NodeClaim"]
    assert len(lost) == 2
    assert again[-1].t > lost[-1].t
    assert [conditions_of(obj)["Ready"] for obj in last.values()] == ["True", "True"]
    assert_lawful(result)


def by_hand(**spec: Any) -> dict[str, Any]:
    """One as somebody writes it; with `labels` for its metadata."""
    metadata = {**BY_HAND["metadata"], **({"labels": spec.pop("labels")} if "labels" in spec else {})}
    return {**BY_HAND, "metadata": metadata, "spec": {**BY_HAND["spec"], **spec}}


def mine(result: Result) -> dict[str, Any]:
    """The NodeClaim as it was last written."""
    return [obj for obj in applied(result) if obj["metadata"]["name"] == "mine"][-1]


def why(obj: dict[str, Any], kind: str = "Launched") -> tuple[str, str, str]:
    condition = next(c for c in obj["status"]["conditions"] if c["type"] == kind)
    return condition["status"], condition["reason"], condition["message"]


TAINT = {"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}


def test_a_node_claim_made_by_hand_is_launched_as_it_says(tmp_path: Path) -> None:
    """No NodePool, no pods: what it asks for is launched, followed to Ready, and left alone by consolidation."""
    large = by_hand(
        resources={"requests": {"cpu": "7", "memory": "12Gi"}},
        requirements=[
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "example.com/team", "operator": "In", "values": ["red"]},
        ],
        taints=[TAINT],
        expireAfter="Never",
    )
    result = play(tmp_path, node_pool(), large, duration="25m")
    launched = named(result, "instanceLaunched")
    assert [launch["capacityType"] for launch in launched] == ["on-demand"]
    obj = mine(result)
    assert {kind: conditions_of(obj).get(kind) for kind in CONDITIONS} == dict.fromkeys(CONDITIONS, "True")
    assert obj["metadata"]["labels"]["example.com/team"] == "red"
    assert labels.NODEPOOL not in obj["metadata"]["labels"]
    assert obj["status"]["nodeName"] == named(result, "nodeJoined")[0]["node"]
    assert int(obj["status"]["capacity"]["cpu"]) >= 8
    assert result.summary["nodesAtEnd"] == 1
    assert_lawful(result)


def test_a_node_claim_made_by_hand_with_a_node_pool_is_consolidated_like_its_others(tmp_path: Path) -> None:
    """Its label makes it one of them (Karpenter): without pods it goes when consolidateAfter is over."""
    labelled = by_hand(labels={labels.NODEPOOL: "default"})
    result = play(tmp_path, node_pool(), labelled, duration="12m")
    assert (result.summary["nodesLaunched"], result.summary["nodesAtEnd"]) == (1, 0)
    assert why(mine(result), "DisruptionReason")[1] == "Empty"
    assert_lawful(result)


def test_deleting_a_node_claim_made_by_hand_drains_and_terminates_its_node(tmp_path: Path) -> None:
    """Pods that were scheduled to it move to another node first."""
    standalone = by_hand(resources={"requests": {"cpu": "3"}})
    steps = [
        {"at": "4m", "apply": [deployment(1)]},
        {"at": "8m", "delete": [{"kind": "NodeClaim", "name": "mine"}]},
    ]
    result = play(tmp_path, node_pool(), standalone, steps=steps, duration="22m")
    deleted = [event["name"] for event in named(result, "objectDeleted") if event["kind"] == "NodeClaim"]
    assert "mine" in deleted
    assert (result.summary["nodesTerminated"], result.summary["podsPending"]) == (1, 0)
    assert {event["by"] for event in named(result, "podEvicted")} == {"eviction"}
    assert_lawful(result)


REFUSED: tuple[tuple[dict[str, Any], tuple[str, str, str]], ...] = (
    (
        by_hand(requirements=[{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["x1.none"]}]),
        (
            "Unknown",
            "InsufficientCapacity",
            f"spec.requirements: no instance type meets that on {labels.INSTANCE_TYPE}",
        ),
    ),
    (
        by_hand(resources={"requests": {"cpu": "9999"}}),
        ("Unknown", "InsufficientCapacity", "spec.resources.requests: none of the "),
    ),
    (
        by_hand(nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "none"}),
        ("Unknown", "NodeClassNotFound", "spec.nodeClassRef.name: EC2NodeClass none does not exist"),
    ),
    (
        by_hand(labels={labels.NODEPOOL: "default"}),
        ("Unknown", "LimitReached", "the limits of NodePool default have no room for it"),
    ),
)


def test_node_claims_made_by_hand_that_cannot_be_launched_say_why(tmp_path: Path) -> None:
    """Each stays, with field and reason: silence would let its author wait forever."""
    written = [{**obj, "metadata": {**obj["metadata"], "name": f"mine-{n}"}} for n, (obj, _) in enumerate(REFUSED)]
    result = play(tmp_path, node_pool(limits={"cpu": "1"}), *written, duration="5m")
    last = {obj["metadata"]["name"]: obj for obj in applied(result)}
    for n, (_, expected) in enumerate(REFUSED):
        status, reason, message = why(last[f"mine-{n}"])
        assert (status, reason, message[: len(expected[2])]) == expected
    assert result.summary["nodesLaunched"] == 0


def test_a_node_claim_whose_name_the_api_server_chooses_is_launched_by_reconcile(tmp_path: Path) -> None:
    """Its audit line has no name, so no message can name it."""
    generated = {**BY_HAND, "metadata": {"name": "mine-x1", "generateName": "mine-"}}
    result = play(tmp_path, node_pool(), generated, duration="10m")
    assert result.summary["nodesLaunched"] == 1
    assert conditions_of(applied(result)[-1])["Ready"] == "True"
    assert_lawful(result)


def test_a_node_claim_made_by_hand_is_launched_once_without_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`reconcile` finds it, in each of its rounds until it is taken on."""
    monkeypatch.setattr("simulator.events.Pump.audit", lambda *_: None)
    result = play(tmp_path, node_pool(), BY_HAND, duration="20m")
    assert result.summary["nodesLaunched"] == 1
    assert conditions_of(mine(result))["Ready"] == "True"
    assert_lawful(result)


def test_no_node_claim_is_made_while_karpenter_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To Karpenter's controller each NodeClaim is an order to launch a node: it would launch ours a second time."""

    def hold(world: World) -> None:
        spec = {"holderIdentity": "karpenter-1", "renewTime": "2030-01-01T00:00:00.000000Z"}
        lease = {"metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"}, "spec": spec}
        world.cluster._store.create(resources.LEASES, lease)

    with_hook(monkeypatch, hold)
    result = play(tmp_path, node_pool(), deployment(1), duration="6m")
    assert applied(result) == []
    assert result.summary["nodesAtEnd"] == 1
    assert_lawful(result)
