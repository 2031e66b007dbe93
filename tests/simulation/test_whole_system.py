"""The whole system in virtual time: the real handlers over the embedded account and cluster."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from adapters.observability import logger
from cli.__main__ import command_parser, main
from cli.commands.cluster import Console
from core.ledger import compression, entry, reading
from core.ledger.compression import compressed
from simulator.world import Result, World, run
from tests.builders import a_class_manifest
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play, write
from tests.unit.cli.commands.test_secrets import annotated, canaries, pod_spec, secret

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
    recorded = [event.fields["object"] for event in there_and_back.events if "object" in event.fields]
    types = {kind: getattr(client, f"V1{kind}", None) for kind in {entry["kind"] for entry in recorded}}
    checked = {o["kind"] for o in recorded if (strict := types[o["kind"]]) and strict.model_validate(o)}
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
    assert {launch["tags"]["karpenter.sh/nodepool"] for launch in launched} == {"default"}
    assert {launch["tags"]["eks:eks-cluster-name"] for launch in launched} == {"fleetwright"}
    claims = [event["nodeClaim"] for event in named(there_and_back, "nodeJoined")]
    assert all(claims)
    assert len(set(claims)) == len(claims)


def test_the_summary_has_the_contracts_fields_in_order(there_and_back: Result) -> None:
    """If this failed, programs that read it would break."""
    assert list(there_and_back.summary)[:5] == ["apiVersion", "kind", "scenario", "virtualSeconds", "wallSeconds"]
    assert there_and_back.summary["virtualSeconds"] == 1200
    assert there_and_back.summary["decisions"] == len(there_and_back.decisions)
    assert json.loads(json.dumps(there_and_back.summary)) == there_and_back.summary


@pytest.mark.ci
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
    ids = [[event["instance"] for event in named(result, "instanceLaunched")] for result in (there_and_back, other)]
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


# Nothing that a decision does not read is written anywhere, but the user data that EC2 gets.


class Written:
    """All that the functions write: calls to AWS (rows, objects, messages, notices), objects of Kubernetes, logs, metrics."""

    def __init__(self) -> None:
        self.texts: dict[str, set[str]] = {}
        self.output = io.StringIO()

    def listen(self, world: World) -> None:
        world.account.wire.listen(lambda call, _: self.add(call.name, call.parameters))
        api = world.cluster.api
        for verb in ("create", "patch"):
            setattr(api, verb, self._noted(f"kube:{verb}", getattr(api, verb)))
        sys.stdout = self.output
        logger.setLevel("DEBUG")
        logger.registered_handler.setStream(self.output)  # type: ignore[attr-defined] - a stream handler

    def add(self, where: str, value: object) -> None:
        self.texts.setdefault(where, set()).update(texts(value))

    def _noted(self, where: str, write: Callable[..., None]) -> Callable[..., None]:
        def noted(resource: Any, *args: Any, **more: Any) -> None:
            self.add(f"{where} {resource.plural}", [args, more])
            write(resource, *args, **more)

        return noted


def texts(value: object) -> Iterator[str]:
    """Every text in a value, also in packed bytes and in JSON within it."""
    if isinstance(value, Mapping):
        yield from (text for pair in value.items() for part in pair for text in texts(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in texts(part))
    elif isinstance(value, bytes | bytearray):
        yield unpacked_text(bytes(value))
    else:
        yield str(value)
        with suppress(ValueError):  # user data is encoded
            yield base64.b64decode(str(value), validate=True).decode("utf-8", "replace")


def unpacked_text(body: bytes) -> str:
    for unpack in (gzip.decompress, zlib.decompress):
        with suppress(Exception):
            return unpack(body).decode("utf-8", "replace")
    return body.decode("utf-8", "replace")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    """What the ledger writes is noted before it is compressed, since a difference can only be read with its base."""
    written = Written()
    level, stream = logger.log_level, logger.registered_handler.stream  # type: ignore[attr-defined]

    def noted(raw: bytes, *base: bytes) -> bytes:
        written.add("ledger", raw)
        return compressed(raw, *base)

    for module in (compression, entry, reading):
        monkeypatch.setattr(module, "compressed", noted)
    yield written
    logger.setLevel(level)
    logger.registered_handler.setStream(stream)  # type: ignore[attr-defined]


def a_world_of_secrets(folder: Path, **settings: Any) -> Path:
    """The scenario of a cluster whose objects hide secrets wherever nothing reads them."""
    node_class = a_class_manifest()
    node_class["spec"]["userData"] = f"#!/bin/sh\nexport P={secret('user-data')}"
    workload = deployment(4)
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    template = workload["spec"]["template"]
    template["spec"] = {key: [{**c, "resources": requests} for c in cs] for key, cs in pod_spec("Deployment").items()}
    template["metadata"]["annotations"] = {"t": secret("template")}
    by_hand = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "by-hand"},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
            "resources": {"requests": {"cpu": "1"}},
        },
    }
    refused = {"metadata": {"name": "odd", "namespace": "default"}, "spec": {**pod_spec("Odd"), "priority": "x"}}
    steps: list[dict[str, Any]] = [
        {"at": "4m", "apply": [annotated(by_hand), annotated({"apiVersion": "v1", "kind": "Pod", **refused})]},
        {"at": "6m", "fault": {"call": "ec2:CreateFleet", "kind": "error", "count": 2}},
        {"at": "7m", "scale": {"kind": "Deployment", "name": "web", "replicas": 12}},
        {"at": "10m", "interrupt": {"fraction": 0.5}},
        {"at": "13m", "scale": {"kind": "Deployment", "name": "web", "replicas": 1}},
    ]
    objects = [annotated(obj) for obj in (node_class, node_pool(), workload)]
    return write(folder, *objects, steps=steps, duration="25m", settings=settings)


def test_no_secret_is_written_anywhere(tmp_path: Path, written: Written) -> None:
    """Rows, objects in S3, messages, notices, events, statuses, logs and metrics have none; so has what people are shown."""
    result = run(a_world_of_secrets(tmp_path), ledger=tmp_path / "ledger", beside=written.listen)
    assert result.summary["nodesLaunched"] > 2
    written.add("logs", written.output.getvalue())
    written.add("decisions", list(result.decisions))
    sinks = {"logs", "ledger", "decisions", "kube:create events", "sqs:SendMessageBatch", "dynamodb:UpdateItem"}
    assert sinks <= written.texts.keys()
    to_ec2 = canaries(" ".join(written.texts.pop("ec2:CreateLaunchTemplate")))
    assert {line.partition("\n")[0] for line in to_ec2} == {"-user-data"}, "EC2 alone gets it"
    written.texts.pop("ec2:RunInstances", None)
    assert {where: secrets for where, told in written.texts.items() if (secrets := canaries(" ".join(told)))} == {}


@pytest.mark.ci
def test_no_secret_is_in_what_people_are_asked_to_approve(tmp_path: Path, written: Written) -> None:
    """Proposals go to a topic, whose subscribers are mailboxes and chats."""
    run(a_world_of_secrets(tmp_path, mode="approve"), beside=written.listen)
    assert written.texts["sns:Publish"]
    told = {where: " ".join(texts) for where, texts in written.texts.items() if not where.startswith("ec2:")}
    assert {where: secrets for where, text in told.items() if (secrets := canaries(text))} == {}


@pytest.mark.ci
def test_no_secret_is_on_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report of a run, and the console's pages of its ledger."""
    ledger, report = str(tmp_path / "ledger"), tmp_path / "report.html"
    scenario = str(a_world_of_secrets(tmp_path))
    assert main(["simulate", scenario, "--ledger", ledger, "--report", str(report)]) == 0
    console = Console(command_parser("console").parse_args(["--ledger", ledger]))
    capsys.readouterr()
    assert main(["log", "--ledger", ledger, "-o", "json"]) == 0
    first = {entry["function"]: entry["id"] for entry in json.loads(capsys.readouterr().out)["entries"]}
    paths = ["/data/decisions", *(f"/data/replay?id={decision}" for decision in first.values())]
    pages = {path: console.reply(path).text for path in paths} | {"report": report.read_text()}
    assert len(pages) > 3
    assert {path: secrets for path, text in pages.items() if (secrets := canaries(text))} == {}
