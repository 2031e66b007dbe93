"""Steps about kubelets, queues, other programs and neighbours, each played in a small world."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidInputError
from simulator.disturbances import typed
from simulator.scenario import read_scenario
from simulator.world import Result, run
from tests.simulation.worlds import catalogue

TERMS = [{"tags": {"karpenter.sh/discovery": "fleetwright"}}]


def manifests(*, replicas: int = 4, pool_extra: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["test.medium"]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": {
                "role": "FleetwrightNodeRole",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": TERMS,
                "securityGroupSelectorTerms": TERMS,
            },
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {
                "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"},
                **(pool_extra or {}),
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
            },
        },
    ]


def play(folder: Path, *steps: dict[str, Any], duration: str = "20m", replicas: int = 4, **spec: Any) -> Result:
    (folder / "base.json").write_text(json.dumps({"kind": "List", "items": manifests(replicas=replicas)}))
    (folder / "catalog.json").write_text(json.dumps(catalogue()))
    fields = {"duration": duration, "catalog": "catalog.json", "steps": list(steps), **spec}
    scenario_spec = {"manifests": ["base.json"], **{name: value for name, value in fields.items() if value is not None}}
    scenario = {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Scenario",
        "metadata": {"name": "s"},
        "spec": scenario_spec,
    }
    path = folder / "s.json"
    path.write_text(json.dumps(scenario))
    return run(path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return play(tmp_path_factory.mktemp("undisturbed"))


def named(result: Result, *names: str) -> list[dict[str, Any]]:
    return [{"t": e.t, "event": e.event, **e.fields} for e in result.events if e.event in names]


def minute(event: dict[str, Any]) -> float:
    hours, minutes, seconds = event["t"][11:].rstrip("Z").split(":")
    return int(hours) * 60 + int(minutes) + float(seconds) / 60


def test_a_kubelet_that_is_not_ready_says_so_at_once_and_is_well_again(tmp_path: Path) -> None:
    result = play(tmp_path, {"at": "6m", "kubelet": {"fraction": 1.0, "ready": False, "for": "2m"}})
    moments = [(e["event"], round(minute(e), 2)) for e in named(result, "nodeNotReady", "nodeReady") if minute(e) >= 6]
    assert ("nodeNotReady", 6.0) in moments
    assert ("nodeReady", 8.0) in moments
    unready = [e for e in named(result, "podUnready") if 6 <= minute(e) < 8]
    assert len(unready) == 4
    assert result.summary["podsPending"] == 0


def test_a_silent_kubelet_is_noticed_after_the_grace_and_its_instance_stays(tmp_path: Path) -> None:
    result = play(tmp_path, {"at": "6m", "kubelet": {"fraction": 1.0, "ready": "unknown", "for": "3m"}})
    lost = [minute(e) for e in named(result, "nodeNotReady") if minute(e) >= 6]
    assert lost
    assert all(6.6 < moment < 6.7 for moment in lost)
    assert not named(result, "nodeDeleted")


def test_what_does_not_reach_a_kubelet_that_is_cut_off_reaches_it_later(tmp_path: Path) -> None:
    result = play(
        tmp_path,
        {"at": "6m", "kubelet": {"fraction": 1.0, "ready": "unknown", "cutOff": True, "for": "4m"}},
        {"at": "7m", "scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 0}},
    )
    gone = [minute(e) for e in named(result, "podDeleted")]
    assert len(gone) == 4
    assert all(10 <= moment < 10.1 for moment in gone)


def test_a_kubelet_reports_what_the_step_says_and_then_the_truth(tmp_path: Path) -> None:
    lie = {"fraction": 1.0, "capacity": {"cpu": "512"}, "allocatable": {"cpu": "511"}, "for": "2m"}
    reports = named(play(tmp_path, {"at": "6m", "kubelet": lie}), "nodeReported")
    assert {e["allocatable"]["cpu"] for e in reports if minute(e) < 7} == {"511"}
    assert {e["capacity"]["cpu"] for e in reports if minute(e) < 7} == {"512"}
    assert {e["capacity"]["cpu"] for e in reports if minute(e) > 7} == {"4"}


def test_the_next_nodes_that_join_can_be_troubled(tmp_path: Path) -> None:
    result = play(tmp_path, {"at": "0s", "kubelet": {"count": 1, "ready": False, "for": "5m"}})
    ready = sorted(round(minute(e)) for e in named(result, "nodeReady"))
    assert len(ready) == 2
    assert ready[1] - ready[0] >= 4


def test_a_stuck_pod_stays_until_the_end_of_the_step(tmp_path: Path, undisturbed: Result) -> None:
    first = named(undisturbed, "podBound")[0]["pod"]
    result = play(
        tmp_path,
        {"at": "6m", "kubelet": {"fraction": 0, "stuck": [first], "for": "6m"}},
        {"at": "7m", "scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 0}},
    )
    gone = {e["pod"]: minute(e) for e in named(result, "podDeleted")}
    assert 12 <= gone.pop(first) < 12.1
    assert max(gone.values()) < 7.5


def test_one_drawn_by_the_seed_is_stuck_copied_stopped_or_a_model_for_strangers(tmp_path: Path) -> None:
    result = play(
        tmp_path,
        {"at": "6m", "kubelet": {"fraction": 1.0, "stuck": ["*"], "for": "6m"}},
        {"at": "7m", "scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 0}},
        {"at": "7m", "copy": {"kind": "Node", "name": "*", "as": "twin"}},
        {"at": "8m", "instances": {"launch": 2, "tagsOf": "*", "for": "3m"}},
        {"at": "14m", "instances": {"stop": "*"}},
    )
    gone = [minute(e) for e in named(result, "podDeleted")]
    assert len(gone) == 4
    assert all(12 <= moment < 12.1 for moment in gone)
    assert "twin" in {e["node"] for e in named(result, "nodeJoined")}
    strangers = {e["instance"] for e in named(result, "instanceLaunched") if e.get("by") == "stranger"}
    ended = {e["instance"] for e in named(result, "instanceTerminated") if 11 <= minute(e) < 11.1}
    assert strangers == ended & strangers != set()
    assert named(result, "instanceStopped")


def test_boot_faults_can_concern_one_zone_and_nodes_that_never_become_ready(tmp_path: Path) -> None:
    nowhere = {"at": "0s", "boot": {"fail": 9, "zone": "us-east-1z"}}
    assert named(play(tmp_path, nowhere), "nodeReady")
    spoiled = play(tmp_path, {"at": "0s", "boot": {"notReady": 99, "instanceType": "test.medium"}}, duration="6m")
    assert named(spoiled, "nodeJoined")
    assert not named(spoiled, "nodeReady")


def test_messages_of_a_slow_queue_come_late(tmp_path: Path) -> None:
    result = play(tmp_path, {"at": "0s", "queue": {"name": "work", "lag": "3m", "for": "4m"}})
    assert {(e["queue"], e["seconds"]) for e in named(result, "queueDelayed")} == {("work", 180.0)}
    handled = [minute(e) for e in named(result, "invocation") if e["trigger"] == "queue:work"]
    assert min(handled) >= 3


def test_nothing_passes_a_queue_that_is_down(tmp_path: Path) -> None:
    result = play(tmp_path, {"at": "0s", "queue": {"down": True, "for": "5m"}})
    queued = [minute(e) for e in named(result, "invocation") if e["trigger"].startswith("queue:")]
    assert not [moment for moment in queued if moment < 5]
    assert result.summary["podsPending"] == 0


def test_past_messages_are_delivered_once_more(tmp_path: Path, undisturbed: Result) -> None:
    result = play(tmp_path, {"at": "10m", "queue": {"replay": {"since": "10m"}}})
    before = [e for e in named(undisturbed, "invocation") if e["trigger"] == "queue:work"]
    after = [e for e in named(result, "invocation") if e["trigger"] == "queue:work"]
    assert len(after) > len(before)
    assert result.summary["nodesLaunched"] == 2


def test_a_share_of_calls_fails_by_the_seed(tmp_path: Path) -> None:
    step = {"at": "0s", "fault": {"call": "*:*", "kind": "error", "share": 0.3, "for": "15m"}}
    first, again = play(tmp_path, step), play(tmp_path, step)
    assert [e.to_line() for e in first.events] == [e.to_line() for e in again.events]
    failed = len(named(first, "fault"))
    assert failed > 20
    assert first.summary["podsPending"] == 0


@pytest.mark.parametrize(
    ("act", "event"),
    [
        ({"deleteNodes": {"fraction": 0.5}}, "nodeDeleted"),
        ({"deleteNodeClaims": {"fraction": 0.5}}, "nodeDeleted"),
        ({"terminateInstances": {"fraction": 0.5}}, "instanceTerminated"),
        ({"untaint": {"fraction": 1.0}}, "nodeUntainted"),
    ],
)
def test_an_actor_does_one_thing_again_and_again(tmp_path: Path, act: dict[str, Any], event: str) -> None:
    untaints = "untaint" in act
    at = "0s" if untaints else "6m"
    every = "10s" if untaints else "2m"
    result = play(tmp_path, {"at": at, "actor": {"name": "cleaner", "every": every, "for": "4m", **act}})
    moments = [minute(e) for e in named(result, event) if e.get("by") in ("user", "program")]
    assert len([moment for moment in moments if untaints or moment >= 6]) >= 2


def test_an_actor_closes_nodes_and_applies_lists_in_turn(tmp_path: Path) -> None:
    first, two = manifests(pool_extra={"weight": 1})[2], manifests(pool_extra={"weight": 2})[2]
    fight = {"name": "fight", "every": "1m", "for": "5m", "apply": [[first], [two]]}
    result = play(tmp_path, {"at": "6m", "actor": fight}, {"at": "6m", "actor": {**fight, "apply": None, "cordon": {}}})
    pools = [e["object"] for e in named(result, "objectApplied") if e["kind"] == "NodePool" and e["by"] == "user"]
    assert [pool["spec"].get("weight") for pool in pools] == [None, 1, 2, 1, 2, 1]
    assert [entry["manager"] for entry in pools[-1]["metadata"]["managedFields"]] == ["fight"]
    assert result.summary["podsPending"] == 0


def test_another_scheduler_binds_pods_to_closed_nodes(tmp_path: Path) -> None:
    result = play(
        tmp_path,
        {"at": "6m", "scheduler": {"name": "other", "binds": {"app": "web"}}},
        {"at": "7m", "actor": {"name": "closer", "every": "1h", "cordon": {}}},
        {"at": "8m", "delete": [{"kind": "Pod", "namespace": "shop", "name": "web"}]},
        {"at": "9m", "scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 1}},
        {"at": "10m", "scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 4}},
    )
    bound = [e for e in named(result, "podBound") if minute(e) >= 10]
    assert len(bound) == 3
    assert all(minute(e) < 10.02 for e in bound)


def test_a_webhook_patches_delays_and_fails(tmp_path: Path) -> None:
    hook = {"on": "pods/create", "patch": {"metadata": {"labels": {"seen": "yes"}}}, "delay": "10s", "fail": 0.3}
    result = play(tmp_path, {"at": "0s", "webhook": hook})
    created = named(result, "podCreated")
    assert {e["object"]["metadata"]["labels"].get("seen") for e in created[-2:]} == {"yes"}
    assert max(minute(e) for e in created) > 10 / 60
    assert result.summary["podsPending"] == 0


def test_the_api_server_is_as_it_was_and_instances_stay(tmp_path: Path) -> None:
    result = play(
        tmp_path,
        {"at": "6m", "scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 8}},
        {"at": "10m", "etcd": {"restore": "5m"}},
        duration="40m",
    )
    back = [e for e in named(result, "podDeleted") if 10 <= minute(e) < 10.01]
    assert len(back) == 4
    assert not [e for e in named(result, "instanceTerminated") if minute(e) < 10.01]
    assert result.summary["orphanedInstances"] == 0
    assert result.summary["podsPending"] == 0


def test_a_copy_has_the_same_id_and_a_namespace_takes_its_objects_along(tmp_path: Path, undisturbed: Result) -> None:
    joined = named(undisturbed, "nodeJoined")[0]
    result = play(
        tmp_path,
        {"at": "6m", "copy": {"kind": "Node", "name": joined["node"], "as": "twin"}},
        {"at": "15m", "delete": [{"kind": "Namespace", "name": "shop"}]},
    )
    twin = next(e for e in named(result, "nodeJoined") if e["node"] == "twin")
    assert twin["providerID"] == joined["providerID"]
    assert twin["object"]["metadata"]["labels"]["karpenter.sh/nodepool"] == "default"
    assert len([e for e in named(result, "podDeleted") if minute(e) >= 15]) == 4


def test_strangers_launch_instances_with_copied_tags_and_stop_others(tmp_path: Path, undisturbed: Result) -> None:
    first = named(undisturbed, "instanceLaunched")[0]
    result = play(
        tmp_path,
        {"at": "6m", "instances": {"launch": 2, "tagsOf": first["instance"]}},
        {"at": "7m", "instances": {"stop": first["instance"]}},
        duration="40m",
    )
    fakes = [e for e in named(result, "instanceLaunched") if e.get("by") == "stranger"]
    assert [e["tags"]["karpenter.sh/nodepool"] for e in fakes] == ["default", "default"]
    assert {e["clientToken"] for e in fakes} == {""}
    assert named(result, "instanceStopped")[0]["instance"] == first["instance"]
    assert result.summary["podsPending"] == 0


def test_a_stranger_writes_a_row(tmp_path: Path) -> None:
    row = {"pk": "unavailable-offerings", "sk": "c6a.xlarge#us-east-1a#spot", "until": 4102444800}
    written = named(play(tmp_path, {"at": "1m", "row": {"put": row}}), "rowWritten")
    assert [(e["partition"], e["sort"]) for e in written] == [(row["pk"], row["sk"])]
    assert typed({"a": [1, None, True], "b": {"S": "x"}}) == {
        "M": {"a": {"L": [{"N": "1"}, {"NULL": True}, {"BOOL": True}]}, "b": {"S": "x"}}
    }


@pytest.mark.ci
def test_counted_work_takes_virtual_time(tmp_path: Path) -> None:
    result = play(tmp_path, duration="6m", clock={"cpu": "counted", "factor": 1})
    planned = [e for e in named(result, "invocation") if e["function"] == "provision"]
    assert max(e["cpuMillis"] for e in planned) > 1
    assert result.summary["cpuSeconds"].keys() >= {"provision", "execute"}
    assert result.summary["peakMemoryMiB"]["provision"] > 100
    slow = play(tmp_path, duration="6m", catalog=None, clock={"cpu": "counted", "factor": 1000})
    assert {e["outcome"] for e in named(slow, "invocation")} > {"timeout"}
    assert result.summary["podsPending"] == 0


def test_a_function_that_uses_more_memory_than_it_has_crashes(tmp_path: Path) -> None:
    result = play(tmp_path, duration="3m", memoryMiB=50)
    assert {e["outcome"] for e in named(result, "invocation")} == {"crash"}
    assert {e["error"] for e in named(result, "invocation")} == {"MemoryExceededError"}


def test_times_of_the_account_can_be_constant_or_drawn(tmp_path: Path) -> None:
    slow = play(tmp_path, aws={"auditLogLag": "1m", "boot": {"p50": "2m", "p99": "3m"}})
    watched = [minute(e) for e in named(slow, "invocation") if e["function"] == "watch_audit_log"]
    assert min(watched) >= 1
    launched, joined = named(slow, "instanceLaunched"), named(slow, "nodeJoined")
    assert 1 < minute(joined[0]) - minute(launched[0]) < 5
    late = play(tmp_path, aws={"scheduleJitter": "20s", "describeLag": "30s"})
    scheduled = [e["t"] for e in named(late, "invocation") if e["trigger"].startswith("schedule:")]
    assert scheduled
    assert all(":20" in t for t in scheduled)
    assert late.summary["podsPending"] == 0


def test_hops_count_the_runs_of_a_function_that_messages_join_to_a_chain(undisturbed: Result) -> None:
    runs = named(undisturbed, "invocation")
    assert {e["hops"] for e in runs if e["function"] == "watch_audit_log"} == {1}
    assert max(e["hops"] for e in runs if e["function"] == "execute") > 1


def wrong() -> Iterator[tuple[dict[str, Any], str]]:
    yield {"kubelet": {"ready": False}}, "kubelet"
    yield {"kubelet": {"node": "a", "fraction": 0.5, "ready": False}}, "kubelet"
    yield {"kubelet": {"node": "a"}}, "ready"
    yield {"kubelet": {"node": "a", "ready": False, "cutOff": True}}, "cutOff"
    yield {"kubelet": {"node": "a", "ready": "maybe"}}, "ready"
    yield {"queue": {"name": "wrong", "lag": "1m"}}, "wake-ups"
    yield {"queue": {"lag": "1m", "down": True}}, "exactly one"
    yield {"fault": {"call": "*", "kind": "error", "share": 1.5}}, "share"
    yield {"actor": {"name": "a", "every": "1m"}}, "deleteNodes"
    yield {"actor": {"name": "a", "every": "0s", "cordon": {}}}, "every"
    yield {"actor": {"name": "a", "every": "1m", "apply": [[{"kind": "Pod"}]]}}, "apply"
    yield {"webhook": {"on": "pods/eat"}}, "pods/eat"
    yield {"instances": {"launch": 2}}, "tagsOf"
    yield {"instances": {"launch": 2, "tagsOf": "a", "stop": "b"}}, "either"
    yield {"copy": {"kind": "Wheel", "name": "a", "as": "b"}}, "Wheel"
    yield {"etcd": {}}, "restore"
    yield {"row": {}}, "put"
    yield {"boot": {"zone": "us-east-1a"}}, "notReady"


@pytest.mark.parametrize(("step", "message"), list(wrong()))
def test_what_is_wrong_with_a_step_is_said(tmp_path: Path, step: dict[str, Any], message: str) -> None:
    spec = {"duration": "10m", "steps": [{"at": "1m", **step}]}
    scenario = {"apiVersion": "fleetwright.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}, "spec": spec}
    (tmp_path / "s.json").write_text(json.dumps(scenario))
    with pytest.raises(InvalidInputError, match=message):
        read_scenario(tmp_path / "s.json")


def test_a_webhook_may_be_written_without_quotes(tmp_path: Path) -> None:
    """YAML 1.1 reads the key `on` as a truth value."""
    path = tmp_path / "s.yaml"
    step = "{at: 5m, webhook: {on: pods/create, patch: {}, delay: 10s, fail: 0.1}}"
    path.write_text(
        "apiVersion: fleetwright.dev/v1\nkind: Scenario\nmetadata: {name: s}\n"
        f"spec:\n  duration: 10m\n  manifests: []\n  steps:\n  - {step}\n"
    )
    (webhook_step,) = read_scenario(path).steps
    assert webhook_step.webhook is not None
    assert (webhook_step.webhook.on, webhook_step.webhook.fail) == ("pods/create", 0.1)
