"""`fleetwright diff`: two sets of manifests, one answer for a pull request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def sides(tmp_path: Path, cluster: list[str]) -> tuple[Path, list[str]]:
    """A folder with `from` and `to`, which are alike, and the arguments that compare them."""
    text = (tmp_path / "cluster" / "all.yaml").read_text()
    for side in ("from", "to"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "all.yaml").write_text(text)
    return tmp_path, ["diff", "--from", str(tmp_path / "from"), "--to", str(tmp_path / "to"), *cluster[2:]]


def change(folder: Path, kind: str, **spec: Any) -> None:
    """Change fields of the spec of the objects of one kind on the side `to`."""
    path = folder / "to" / "all.yaml"
    objects = list(yaml.safe_load_all(path.read_text()))
    for obj in objects:
        if obj["kind"] == kind:
            obj["spec"] |= spec
    path.write_text(yaml.safe_dump_all(objects))


def answer(arguments: list[str], capsys: Capture, *more: str) -> tuple[int, dict[str, Any]]:
    code = main([*arguments, "-o", "json", *more])
    return code, json.loads(capsys.readouterr().out)


def test_equal_sides_do_not_differ(sides: tuple[Path, list[str]], capsys: Capture) -> None:
    code, found = answer(sides[1], capsys, "--fail-on", "pods-lost", "--fail-on", "cost+0", "--fail-on", "drift")
    assert (code, found["kind"], found["before"]) == (0, "Difference", found["after"])
    assert found["before"] == {"hourly": 0.1, "monthly": 73.0, "nodes": 1, "unschedulable": ["shop/huge"]}
    assert (found["podsLost"], found["podsGained"], found["nodesDrifted"]) == ([], [], [])


def test_a_cost_increase_fails_on_request(sides: tuple[Path, list[str]], capsys: Capture) -> None:
    folder, arguments = sides
    change(folder, "Deployment", replicas=5)
    code, found = answer(arguments, capsys, "--fail-on", "cost+200%", "--fail-on", "pods-lost", "--fail-on", "drift")
    assert (code, found["after"]["nodes"], found["after"]["hourly"]) == (0, 3, 0.3)
    assert main([*arguments, "--fail-on", "cost+199.5"]) == 1
    assert "$0.2000 an hour more" in capsys.readouterr().err


def test_pods_that_lose_or_gain_a_place_are_named(sides: tuple[Path, list[str]], capsys: Capture) -> None:
    folder, arguments = sides
    change(folder, "NodePool", limits={"cpu": "1"})
    code, found = answer(arguments, capsys, "--fail-on", "pods-lost")
    assert (code, found["podsLost"]) == (1, ["shop/cart-0", "shop/cart-1"])
    assert found["reasons"]["shop/cart-0"]["reason"]
    back = [{"--from": "--to", "--to": "--from"}.get(word, word) for word in arguments]
    assert answer(back, capsys, "--fail-on", "pods-lost")[0] == 0
    assert answer(back, capsys)[1]["podsGained"] == ["shop/cart-0", "shop/cart-1"]


def test_objects_that_cannot_be_read_after_the_change_lose_their_pods(
    sides: tuple[Path, list[str]], capsys: Capture
) -> None:
    """One broken amount ended the comparison; without the pods of its Deployment the change looked cheaper."""
    folder, arguments = sides
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1x"}}}]
    change(folder, "Deployment", template={"spec": {"containers": containers}})
    code, found = answer(arguments, capsys)
    (aside,) = found["after"]["setAside"]
    assert (code, aside["object"], aside["reason"]) == (0, "Deployment/shop/cart", "CannotBeRead")
    assert "setAside" not in found["before"]
    assert main([*arguments, "--fail-on", "pods-lost"]) == 1
    out, err = capsys.readouterr()
    assert "1 object after the change set aside: planned without\n  Deployment/shop/cart [CannotBeRead]: " in out
    assert "1 object set aside, first Deployment/shop/cart" in err
    back = [{"--from": "--to", "--to": "--from"}.get(word, word) for word in arguments]
    assert main([*back, "--fail-on", "pods-lost"]) == 0


NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: &labels {karpenter.sh/nodepool: default, kubernetes.io/arch: amd64, kubernetes.io/os: linux,
  node.kubernetes.io/instance-type: m.small, topology.kubernetes.io/zone: z1, karpenter.sh/capacity-type: on-demand,
  karpenter.sh/registered: "true", karpenter.sh/initialized: "true"}}
spec: {providerID: "aws:///z1/i-1"}
status: {allocatable: {cpu: 4, memory: 16Gi, pods: 40}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: default-1, labels: {karpenter.sh/nodepool: default, kubernetes.io/arch: amd64}}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status: {providerID: "aws:///z1/i-1", nodeName: node-1}
"""


def test_nodes_of_a_shared_cluster_count_and_drift(sides: tuple[Path, list[str]], capsys: Capture) -> None:
    folder, arguments = sides
    (folder / "nodes.yaml").write_text(NODE)
    arguments = [*arguments, "-f", str(folder / "nodes.yaml")]
    pool = yaml.safe_load((folder / "to" / "all.yaml").read_text().split("---")[0])
    template = pool["spec"]["template"] | {"metadata": {"labels": {"team": "a"}}}
    change(folder, "NodePool", template=template)
    code, found = answer(arguments, capsys, "--fail-on", "drift")
    assert (code, found["before"]["nodes"], found["before"]["hourly"]) == (1, 1, 0.1)
    assert found["nodesDrifted"] == [{"node": "node-1", "nodePool": "default", "reason": "NodePoolDrifted"}]


def test_a_pull_request_gets_a_table(sides: tuple[Path, list[str]], capsys: Capture) -> None:
    folder, arguments = sides
    change(folder, "NodePool", limits={"cpu": "1"})
    assert main([*arguments, "-o", "markdown"]) == 0
    told = capsys.readouterr().out
    assert "| nodes | 1 | 0 | -1 |" in told
    assert "- shop/cart-0  [" in told


@pytest.mark.parametrize("condition", ["cost+", "cost-5", "pods", ""])
def test_an_unknown_condition_is_wrong_usage(condition: str, sides: tuple[Path, list[str]], capsys: Capture) -> None:
    assert main([*sides[1], "--fail-on", condition]) == 2
    assert "cost+PERCENT" in capsys.readouterr().err


def test_standard_input_is_for_one_side_only(sides: tuple[Path, list[str]], capsys: Capture) -> None:
    assert main(["diff", "--from", "-", "--to", "-"]) == 2
    assert "once only" in capsys.readouterr().err


CALENDAR = """---
apiVersion: fleetwright.dev/v1alpha1
kind: Calendar
metadata: {name: office}
spec:
  timeZone: Europe/Berlin
  rules:
  - {name: nights, when: Outside, windows: [{from: "08:00", to: "19:00"}], settings: {closed: true}}
"""


@pytest.mark.parametrize(
    ("moment", "lost"), [("2026-12-01T12:00:00Z", []), ("2026-12-01T20:00:00Z", ["cart-0", "cart-1"])]
)
def test_both_sides_are_as_calendars_have_them_at_that_time(
    sides: tuple[Path, list[str]], capsys: Capture, moment: str, lost: list[str]
) -> None:
    folder, arguments = sides
    (folder / "to" / "calendar.yaml").write_text(CALENDAR)
    found = answer(arguments, capsys, "--at", moment)[1]
    assert (found["now"], found["podsLost"]) == (moment, [f"shop/{name}" for name in lost])
    assert {reason["reason"] for reason in found["reasons"].values() if "huge" not in str(reason)} >= (
        {"OutsideHours"} if lost else set()
    )
