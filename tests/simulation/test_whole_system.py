"""The whole system in virtual time: the real handlers over the embedded account and cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from simulator.world import Result
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play, write

SCALE_TO_ZERO = {"at": "8m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}}


@pytest.fixture(scope="module")
def there_and_back(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Ten pods that come and go."""
    return play(tmp_path_factory.mktemp("world"), node_pool(), deployment(10), steps=[SCALE_TO_ZERO])


def test_pods_get_nodes_and_nodes_go_with_them(there_and_back: Result) -> None:
    """If this failed, the system would be broken somewhere between a pending pod and a terminated instance."""
    summary = there_and_back.summary
    assert (summary["podsCreated"], summary["podsScheduled"], summary["podsPending"]) == (10, 10, 0)
    assert summary["nodesLaunched"] == summary["nodesTerminated"] > 0
    assert summary["nodesAtEnd"] == 0
    assert summary["dollars"] > 0
    assert there_and_back.failures == ()
    assert_lawful(there_and_back)


def test_recorded_objects_are_what_an_api_server_would_serve(there_and_back: Result) -> None:
    """If this failed, programs that read our record with the official client's strict types would fail."""
    found = [event.fields["object"] for event in there_and_back.events if "object" in event.fields]
    types = {kind: getattr(client, f"V1{kind}", None) for kind in {found["kind"] for found in found}}
    checked = {o["kind"] for o in found if (strict := types[o["kind"]]) and strict.model_validate(o)}
    assert {"Node", "Pod", "Deployment", "ReplicaSet"} <= checked


def test_the_record_begins_ends_and_is_in_order(there_and_back: Result) -> None:
    """If this failed, others could not judge or replay a run."""
    names = [event.event for event in there_and_back.events]
    assert (names[0], names[-1]) == ("simulationStarted", "simulationEnded")
    moments = [event.t for event in there_and_back.events]
    assert moments == sorted(moments, key=_as_number)


def test_instances_say_whose_they_are(there_and_back: Result) -> None:
    """If this failed, nobody could tell what an instance was launched for."""
    launched = named(there_and_back, "instanceLaunched")
    assert {found["tags"]["karpenter.sh/nodepool"] for found in launched} == {"default"}
    assert {found["tags"]["eks:eks-cluster-name"] for found in launched} == {"fleetwright"}
    claims = [found["nodeClaim"] for found in named(there_and_back, "nodeJoined")]
    assert all(claims)
    assert len(set(claims)) == len(claims)


def test_the_summary_has_the_contracts_fields_in_order(there_and_back: Result) -> None:
    """If this failed, programs that read it would break."""
    assert list(there_and_back.summary)[:5] == ["apiVersion", "kind", "scenario", "virtualSeconds", "wallSeconds"]
    assert there_and_back.summary["virtualSeconds"] == 1200
    assert there_and_back.summary["decisions"] == len(there_and_back.decisions)
    assert json.loads(json.dumps(there_and_back.summary)) == there_and_back.summary


def test_one_seed_is_one_record_byte_for_byte(tmp_path: Path) -> None:
    """If this failed, a run that shows a bug could not be run again."""
    fault = {"at": "1m", "fault": {"call": "dynamodb:*", "kind": "throttle", "count": 5}}
    steps = [fault, {"at": "5m", "interrupt": {"fraction": 0.5}}, SCALE_TO_ZERO]
    path = write(tmp_path, node_pool(), deployment(10), steps=steps, duration="12m")
    script = (
        "import sys, pathlib, simulator.world as r; r.run(pathlib.Path(sys.argv[1]), record=pathlib.Path(sys.argv[2]))"
    )
    records = []
    for hash_seed in ("1", "2"):
        record = tmp_path / f"{hash_seed}.jsonl"
        command = [sys.executable, "-c", script, str(path), str(record)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."}
        subprocess.run(command, check=True, env=environment)  # noqa: S603 - our own interpreter and script
        records.append(record.read_bytes())
    assert records[0] == records[1]
    assert records[0].count(b"\n") > 50


def test_another_seed_is_another_run(tmp_path: Path, there_and_back: Result) -> None:
    """If this failed, the seed would have no effect."""
    other = play(tmp_path, node_pool(), deployment(10), steps=[SCALE_TO_ZERO], seed=2)
    ids = [[found["instance"] for found in named(result, "instanceLaunched")] for result in (there_and_back, other)]
    assert ids[0] != ids[1]


CALLS = (
    "ec2:CreateFleet",
    "dynamodb:TransactWriteItems",
    "sqs:SendMessageBatch",
    "kube:patch nodes",
    "ec2:TerminateInstances",
)
KINDS = ("lostReply", "crashBefore", "crashAfter")


@pytest.mark.slow  # `make sim` crashes functions at these calls, and the courses show what follows a lost answer
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_after_any_single_disaster_all_settles(tmp_path: Path, call: str, kind: str) -> None:
    """If this failed, one crash at the wrong call would leave a node, a claim or a pod behind forever."""
    steps: list[dict[str, Any]] = [{"at": 0, "fault": {"call": call, "kind": kind, "count": 1}}]
    steps.append({"at": "15m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}})
    result = play(tmp_path, node_pool(), deployment(6), steps=steps, duration="50m")
    assert result.warnings == ()
    assert (result.summary["podsScheduled"], result.summary["nodesAtEnd"]) == (6, 0)
    assert_lawful(result)


def test_a_fault_on_a_call_that_nobody_makes_is_a_warning(tmp_path: Path) -> None:
    """If this failed, a misspelt scenario would pass without testing anything."""
    steps = [{"at": 0, "fault": {"call": "ec2:CreateFleat", "kind": "throttle"}}]
    result = play(tmp_path, node_pool(), steps=steps, duration="3m")
    assert result.warnings == ("no call matched the fault on ec2:CreateFleat",)


def _as_number(moment: str) -> str:
    return moment.removesuffix("Z").ljust(26, "0") if "." in moment else moment.removesuffix("Z") + ".000000"
