"""Scenario files: what is read, and what is said of a wrong one."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta
from pathlib import Path

import pytest

from core.errors import InvalidInputError
from simulator.clock import constant, stream
from simulator.scenario import Trace, read_scenario, read_trace
from simulator.step_forms import Tokens

HEAD = "apiVersion: fleetwright.dev/v1\nkind: Scenario\nmetadata: {name: s}\nspec:\n  duration: 1h30m\n"
POOL = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: %s}\n"


def write(folder: Path, text: str) -> Path:
    """A scenario file."""
    path = folder / "scenario.yaml"
    path.write_text(text)
    return path


def test_files_are_relative_to_the_scenario_and_lists_unfolded(tmp_path: Path) -> None:
    """If this failed, a scenario would only run from its own folder."""
    (tmp_path / "pools" / "deep").mkdir(parents=True)
    (tmp_path / "pools" / "deep" / "a.yaml").write_text(POOL % "a" + "---\n" + POOL % "b")
    (tmp_path / "pools" / "list.json").write_text(
        '{"kind": "List", "items": [{"kind": "NodePool", "metadata": {"name": "c"}}]}'
    )
    (tmp_path / "pools" / "notes.txt").write_text("not a manifest")
    scenario = read_scenario(write(tmp_path, HEAD + "  manifests: [pools/]\n"))
    assert [manifest["metadata"]["name"] for manifest in scenario.manifests] == ["a", "b", "c"]
    assert scenario.duration == timedelta(minutes=90)


def test_every_step_of_the_contract_is_read(tmp_path: Path) -> None:
    """If this failed, a step that the contract promises would be refused."""
    (tmp_path / "more.yaml").write_text(POOL % "more")
    steps = """  steps:
  - {at: 10m, apply: [more.yaml, {apiVersion: v1, kind: Pod, metadata: {name: inline}}]}
  - {at: 20m, scale: {kind: Deployment, namespace: shop, name: cart, replicas: 40}}
  - {at: 30m, delete: [{kind: Pod, namespace: shop, name: cart-3}]}
  - {at: 1h, capacity: {instanceType: c7g.xlarge, zone: us-east-1a, capacityType: spot, available: 0}}
  - {at: 1h, capacity: {available: null}}
  - {at: 70m, price: {capacityType: spot, factor: 1.1}}
  - {at: 80m, ami: {alias: al2023, id: ami-0new}}
  - {at: 85m, subnet: {zone: us-east-1a, freeAddresses: 12}}
  - {at: 90m, interrupt: {zone: us-east-1a, fraction: 0.2}}
  - {at: 90m, interrupt: {node: ip-10-0-0-4.ec2.internal, kind: rebalance}}
  - {at: 95m, boot: {fail: 3}}
  - {at: 95m, boot: {seconds: 300, count: 3}}
  - {at: 2h, fault: {call: "ec2:CreateFleet", kind: throttle, count: 3}}
  - {at: 3h, fault: {call: "kube:*", kind: error, for: 5m}}
  - {at: 4h, events: {kind: duplicate, count: 5}}
  - {at: 30, events: {kind: delay, count: 1, seconds: 60}}
"""
    scenario = read_scenario(write(tmp_path, HEAD + steps))
    assert [manifest["metadata"]["name"] for manifest in scenario.steps[0].apply or ()] == ["more", "inline"]
    fault = scenario.steps[13].fault
    assert fault is not None
    assert fault.lasting == timedelta(minutes=5)
    assert scenario.steps[-1].at == timedelta(seconds=30)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("  steps: [{at: soon, price: {factor: 2}}]\n", "spec.steps[0].at: 'soon' is not a duration"),
        ("  steps: [{at: 1m}]\n", "spec.steps[0]: must hold exactly one of"),
        ("  steps: [{at: 1m, price: {factor: 2}, boot: {fail: 1}}]\n", "spec.steps[0]: must hold exactly one of"),
        ("  steps: [{at: 1m, prise: {factor: 2}}]\n", "unknown field `prise`"),
        ("  steps: [{at: 1m, fault: {call: x, kind: quake}}]\n", "spec.steps[0].fault.kind: 'quake' is none of"),
        ("  steps: [{at: 1m, scale: {kind: Deployment, name: x}}]\n", "missing required field `replicas`"),
        ("  steps: [{at: 1m, apply: [gone.yaml]}]\n", "gone.yaml: cannot be read"),
        ("  steps: [{at: 1m, apply: [{kind: Pod}]}]\n", "spec.steps[0].apply[0]: is neither a file nor an object"),
        ("  steps: [{at: 1m, boot: {count: 2}}]\n", "spec.steps[0].boot: needs"),
        ("  steps: [{at: 1m, fault: {call: x, kind: denied, as: rumour}}]\n", "fault.as: 'rumour' is none of"),
        ("  steps: [{at: 1m, fault: {call: x, kind: error, function: exe}}]\n", "fault.function: 'exe' is none of"),
        ("  steps: [{at: 1m, table: {}}]\n", "spec.steps[0].table: must hold either"),
        ("  steps: [{at: 1m, table: {lose: some}}]\n", "spec.steps[0].table.lose: 'some' is neither"),
        ("  steps: [{at: 1m, table: {restore: soon}}]\n", "spec.steps[0].table.restore: 'soon' is not a duration"),
        ("  manifests: [gone]\n", "spec.manifests: "),
        ("  start: yesterday\n", "spec.start: 'yesterday' is not an RFC 3339 time"),
        ("  seed: many\n", "spec.seed"),
    ],
)
def test_what_is_wrong_names_file_and_field(tmp_path: Path, lines: str, message: str) -> None:
    """If this failed, people would look for the mistake in the wrong place."""
    path = write(tmp_path, HEAD + lines)
    with pytest.raises(InvalidInputError) as caught:
        read_scenario(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("text", ["kind: Pod\n", "a: [\n", "", "apiVersion: v2\nkind: Scenario\n"])
def test_what_is_no_scenario_is_said_so(tmp_path: Path, text: str) -> None:
    """If this failed, any file would be played as an empty scenario."""
    with pytest.raises(InvalidInputError, match=r"scenario\.yaml"):
        read_scenario(write(tmp_path, text))


def test_what_aws_does_not_promise_is_constant_or_drawn_by_the_seed(tmp_path: Path) -> None:
    """If this failed, figures would rest on one assumed time, such as eight seconds of the audit log."""
    lines = (
        "  nodeBootSeconds: 20\n  aws: {auditLogLag: {p50: 8s, p99: 1m}, scheduleJitter: 5s, repeatedLaunch: silent, "
        "tagLag: 10s, partialLists: 0.1, requestTokens: {burst: 5, perSecond: 1}, healthUpdates: true}\n"
    )
    scenario = read_scenario(write(tmp_path, HEAD + lines))
    drawn, again = ([scenario.aws.audit_log_lag.draw(rng) for _ in range(999)] for rng in map(stream, (1, 1), "aa"))
    assert drawn == again
    lags = sorted(drawn)
    assert timedelta(seconds=7) < lags[499] < timedelta(seconds=9)
    assert timedelta(seconds=45) < lags[988] < timedelta(seconds=80)
    assert lags[-1] <= timedelta(minutes=2)
    assert scenario.aws.schedule_jitter.draw(stream(1, "x")) == timedelta(seconds=5)
    assert scenario.boot.draw(stream(1, "x")) == timedelta(seconds=20)
    assert scenario.aws.repeated_launch == "silent"
    assert scenario.aws.tag_lag == constant(timedelta(seconds=10))
    assert (scenario.aws.partial_lists, scenario.aws.health_updates) == (0.1, True)
    assert scenario.aws.request_tokens == Tokens(burst=5, per_second=1)


@pytest.mark.parametrize(
    ("aws", "message"),
    [
        ("{boot: {p50: 10s}}", "spec.aws.boot"),
        ("{boot: {p50: 10s, p99: 5s}}", "p99 is shorter"),
        ("{boot: soon}", "spec.aws.boot"),
        ("{lag: 5s}", "lag"),
        ("{repeatedLaunch: never}", "never"),
    ],
)
def test_a_silence_that_is_none_is_refused(tmp_path: Path, aws: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        read_scenario(write(tmp_path, f"{HEAD}  aws: {aws}\n"))


def test_a_text_that_is_no_yaml_is_said_in_one_line_with_its_place(tmp_path: Path) -> None:
    """Four lines of the parser's named a "<unicode string>" in place of the file."""
    with pytest.raises(InvalidInputError) as raised:
        read_scenario(write(tmp_path, "spec:\n  a: [1,\n"))
    assert str(raised.value).partition("scenario.yaml: ")[2].startswith("line 3, column 1: is not YAML: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("entry", ["manifests: [a.yaml]", "steps: [{at: 1m, apply: [a.yaml]}]"])
@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (
            "apiVersion: karpenter.sh/v9\nkind: NodePool\nmetadata: {name: a}\n",
            "apiVersion: karpenter.sh/v9 has no NodePool; allowed: ",
        ),
        (
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\n",
            "karpenter.sh/v1beta1 is an older version",
        ),
        (
            "kind: NodePool\nmetadata: {name: a, name: b}\n",
            "line 2, column 21: is not YAML: its mapping has 'name' already",
        ),
    ],
)
def test_manifests_that_an_api_server_refuses_are_named(
    tmp_path: Path, entry: str, manifest: str, message: str
) -> None:
    """The run had no NodePool otherwise, without a word."""
    (tmp_path / "a.yaml").write_text(manifest)
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        read_scenario(write(tmp_path, HEAD + f"  {entry}\n"))


def test_an_object_in_a_step_has_a_version_that_exists(tmp_path: Path) -> None:
    inline = "  steps: [{at: 1m, apply: [{apiVersion: v1, kind: Deployment, metadata: {name: a}}]}]\n"
    with pytest.raises(InvalidInputError, match=re.escape("v1 has no Deployment; allowed: apps/v1")):
        read_scenario(write(tmp_path, HEAD + inline))


# The openb trace: which pods appear when, asking for what.


TRACE_HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
ROWS = (
    "early,1000,512,0,0,,LS,Running,99,500,100\n"
    "first,16500,51200,0,0,,LS,Running,100,130,101\n"
    "share,1000,1024,1,460,T4,BE,Running,160,220,161\n"
    "whole,1000,1024,8,1000,,BE,Failed,200,240,\n"
    "late,1000,512,0,0,,LS,Running,201,500,202\n"
)


def test_pods_of_the_window_appear_and_vanish_by_its_clock(tmp_path: Path) -> None:
    """If this failed, a day of the trace would play at the wrong hour or with other pods."""
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((TRACE_HEAD + ROWS).encode()))
    pods = read_trace(tmp_path / "t.csv.gz", Trace(format="openb", file="t", since=100, until=200, namespace="n"))
    assert [p.manifest["metadata"]["name"] for p in pods] == ["first", "share", "whole"]
    assert [(p.appears, p.vanishes) for p in pods] == [
        (timedelta(seconds=a), timedelta(seconds=b)) for a, b in ((0, 30), (60, 120), (100, 140))
    ]
    assert pods[0].manifest["metadata"]["labels"] == {"app": "openb"}


def test_a_share_of_a_gpu_counts_as_one(tmp_path: Path) -> None:
    """If this failed, pods that share a GPU would need no GPU node at all."""
    (tmp_path / "t.csv").write_text(TRACE_HEAD + ROWS)
    pods = read_trace(tmp_path / "t.csv", Trace(format="openb", file="t", since=100, until=200))
    requests = [p.manifest["spec"]["containers"][0]["resources"]["requests"] for p in pods]
    assert requests[0] == {"cpu": "16500m", "memory": "51200Mi"}
    assert [amounts.get("nvidia.com/gpu") for amounts in requests] == [None, "1", "8"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a,b\n1,2\n", "has no column name"), (TRACE_HEAD + "x,many,1,0,0,,,,1,2,3\n", "line 2")],
)
def test_a_broken_trace_names_the_place(tmp_path: Path, text: str, message: str) -> None:
    """If this failed, a wrong file would play as an empty cluster."""
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        read_trace(tmp_path / "t.csv", Trace(format="openb", file="t"))
