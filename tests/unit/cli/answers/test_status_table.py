"""The status of a cluster names its nodes whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from cli.answers.status_table import organisation_table, status_names, status_table
from core.api.objects import JsonObject

NODE = "ip-10-0-213-112.eu-central-1.compute.internal"
CLUSTER = f"""
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: general}}
spec:
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements: []
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {{name: general-x7k2p, labels: {{karpenter.sh/nodepool: general}}}}
spec: {{nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: []}}
status: {{providerID: "aws:///eu-central-1a/i-0abc", nodeName: {NODE}}}
---
apiVersion: v1
kind: Node
metadata:
  name: {NODE}
  labels:
    karpenter.sh/nodepool: general
    karpenter.sh/capacity-type: on-demand
    node.kubernetes.io/instance-type: m5.xlarge
    topology.kubernetes.io/zone: eu-central-1a
    karpenter.sh/registered: "true"
    karpenter.sh/initialized: "true"
spec: {{providerID: "aws:///eu-central-1a/i-0abc"}}
status: {{allocatable: {{cpu: "4", memory: 14Gi, pods: "58"}}, conditions: [{{type: Ready, status: "True"}}]}}
"""


def test_names_and_types_of_nodes_are_not_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were wrapped in the middle of a word, so that nobody could copy or search for one."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
    assert main(["status", "-f", str(tmp_path / "cluster.yaml"), "--region", "eu-central-1", "-o", "wide"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("general-x7k2p"))
    assert row.split()[:3] == ["general-x7k2p", NODE, "m5.xlarge/on-demand/eu-central-1a"]


def a_document(**changes: Any) -> JsonObject:
    """A cluster without nodes, as one sees it that may not read the functions' table."""
    nothing: JsonObject = {"cluster": None, "cost": {"hourly": 0.0, "spotHourly": 0.0}, "pendingPods": []}
    unknown = dict.fromkeys(("commands", "proposals", "brakes", "breakers", "sweeps"))
    return {**nothing, "nodePools": [], "foreignNodes": 0, "claims": [], **unknown, **changes}


def pool(name: str = "general", **changes: Any) -> JsonObject:
    plain: JsonObject = {"name": name, "nodes": 2, "starting": 0, "pods": 5, "hourly": 0.5, "budgets": {"Empty": 1}}
    return {
        **plain,
        "takenBy": [],
        "nextWindow": None,
        "invalidBudget": None,
        "paused": None,
        "rollout": None,
        **changes,
    }


def claim(name: str = "general-1", **changes: Any) -> JsonObject:
    plain: JsonObject = {"name": name, "node": "n1", "phase": "initialized", "instanceType": "m5.large", "hourly": 0.5}
    place = {"zone": "us-east-1a", "capacityType": "spot"}
    return {**plain, **place, "leavingSince": None, "leavingWhy": None, "message": None, **changes}


def shown(document: JsonObject, **options: bool) -> list[str]:
    return [" ".join(line.split()) for line in status_table(document, **options).splitlines() if line]


def test_a_cluster_of_which_nothing_is_known_says_no_more() -> None:
    """Silence about brakes would look like an all-clear."""
    assert shown(a_document()) == ["0 nodes, $0.0000 an hour, $0 a month", "there is no NodePool"]


def test_the_first_lines_sum_up_the_cluster() -> None:
    document = a_document(
        cluster="prod",
        cost={"hourly": 1.0, "spotHourly": 0.25},
        nodePools=[pool(), pool("gpu", nodes=1)],
        foreignNodes=1,
        pendingPods=["a/1", "a/2", "a/3", "a/4"],
    )
    assert shown(document)[:3] == [
        "cluster prod: 3 nodes, $1.0000 an hour, $730 a month, 25% of it spot",
        "1 node besides that is not ours",
        "4 pods without a node: a/1, a/2, a/3 +1",
    ]
    assert "2 nodes besides that are not ours" in shown(a_document(foreignNodes=2))


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({}, "general 2 5 0.5000 1 - -"),
        ({"starting": 1}, "general 2 (1 starting) 5 0.5000 1 - -"),
        ({"budgets": {"Empty": None, "Drifted": None}}, "general 2 5 0.5000 any - -"),
        (
            {"budgets": {"Empty": 0, "Drifted": 2, "Underutilized": 0}},
            "general 2 5 0.5000 2 Drifted, 0 Empty/Underutilized - -",
        ),
        (
            {"takenBy": [{"node": f"n{number}", "why": "Drifted"} for number in range(4)]},
            "general 2 5 0.5000 1 n0 (Drifted), n1 (Drifted), n2 (Drifted) +1 -",
        ),
        (
            {"nextWindow": {"at": "2026-11-20T09:30:00Z", "allowed": {"Empty": 0}}},
            "general 2 5 0.5000 1 - 11-20 09:30: 0",
        ),
    ],
)
def test_a_node_pool_is_a_row(changes: JsonObject, row: str) -> None:
    assert shown(a_document(nodePools=[pool(**changes)]))[2] == row


def test_what_is_wrong_with_a_node_pool_stands_below_the_table() -> None:
    document = a_document(nodePools=[pool(invalidBudget="bad cron", paused="by hand"), pool("b", rollout="stopped")])
    assert shown(document)[-3:] == ["general: bad cron", "general: by hand", "b: stopped"]


def brake(**changes: Any) -> JsonObject:
    return {
        "brake": "breaker",
        "message": "it tripped",
        "nodePool": None,
        "zone": None,
        "stops": ["launch", "drift"],
        **changes,
    }


def breaker(name: str, failures: int) -> JsonObject:
    return {"nodePool": name, "failures": failures, "openUntil": None, "message": "no route"}


@pytest.mark.parametrize(
    ("brakes", "breakers", "lines"),
    [
        ([], [], ["no brake is engaged"]),
        ([brake()], [], ["breaker: it tripped (stops launch, drift)"]),
        ([], [breaker("a", 1)], ["breaker of a: 1 new node in a row did not join; no route"]),
        (
            [brake(nodePool="a")],
            [breaker("a", 3), breaker("b", 2)],
            ["breaker: it tripped (stops launch, drift)", "breaker of b: 2 new nodes in a row did not join; no route"],
        ),
    ],
)
def test_brakes_and_breakers_that_have_not_tripped_yet(
    brakes: list[JsonObject], breakers: list[JsonObject], lines: list[str]
) -> None:
    assert shown(a_document(brakes=brakes, breakers=breakers))[1:-1] == lines


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({}, None),
        ({"phase": "launched", "node": None, "zone": None}, "general-1 - m5.large/spot/? 0.5000 launched"),
        (
            {"leavingSince": "2026-11-20T09:30:00Z", "leavingWhy": "Drifted", "message": "a pod stays"},
            "general-1 n1 m5.large/spot/us-east-1a 0.5000 leaves since 11-20 09:30 [Drifted] a pod stays",
        ),
        (
            {"leavingSince": "2026-11-20T09:30:00Z"},
            "general-1 n1 m5.large/spot/us-east-1a 0.5000 leaves since 11-20 09:30",
        ),
    ],
)
def test_nodes_that_come_or_go_are_rows_and_the_others_with_all(changes: JsonObject, row: str | None) -> None:
    document = a_document(claims=[claim(**changes)])
    assert [line for line in shown(document) if line.startswith("general-1")] == ([] if row is None else [row])
    whole = row or "general-1 n1 m5.large/spot/us-east-1a 0.5000 initialized"
    assert whole in shown(document, shows_all=True)
    assert status_names(document) == ("node/n1" if document["claims"][0]["node"] else "")


def a_command(**changes: Any) -> dict[str, Any]:
    """A command that drains a drifted node."""
    command = {
        "id": "c0ffee",
        "phase": "draining",
        "reason": "Drifted",
        "method": "drift",
        "nodes": ["n1"],
        "replacements": [],
        "savings": 0.0,
        "since": "2026-11-20T09:30:00Z",
    }
    return {**command, **changes}


def test_commands_and_proposals_are_tables() -> None:
    lines = shown(a_document(commands=[a_command(savings=-0.25)]))
    assert "c0ffee draining Drifted (drift) n1 nothing -0.2500 11-20 09:30" in lines
    proposal = {
        "id": "4711",
        "what": "remove n1",
        "reason": "Empty",
        "moves": 0,
        "savings": 0.5,
        "state": "waits",
        "why": "always",
        "expiresAt": "2026-11-21T09:30:00Z",
        "end": None,
        "verdict": None,
    }
    lines = shown(a_document(cluster="prod", proposals=[proposal]))
    assert "4711 remove n1 Empty 0 0.5000 waits: always 11-21 09:30" in lines
    assert lines[-1] == "`fleetwright approve ID --cluster prod`"
    assert not any("approve" in line for line in shown(a_document(proposals=[], commands=[])))


@pytest.mark.parametrize(
    ("sweeps", "lines"),
    [
        ({"cleanAt": None, "failing": []}, []),
        (
            {"cleanAt": "2026-11-20T09:30:00Z", "failing": []},
            ["reconcile: everything was in order, last written down 11-20 09:30"],
        ),
        (
            {
                "cleanAt": "2026-11-20T09:30:00Z",
                "failing": [{"name": "taints", "cleanAt": "2026-11-20T09:00:00Z", "failures": 3, "reason": "Denied"}],
            },
            ["reconcile: taints fails since 11-20 09:00 (3 rounds): Denied"],
        ),
    ],
)
def test_sweeps_that_fail_are_named(sweeps: JsonObject, lines: list[str]) -> None:
    assert shown(a_document(sweeps=sweeps))[2:] == lines


def test_clusters_of_an_organisation_are_rows() -> None:
    one = a_document(
        cluster="prod",
        region="eu-west-1",
        cost={"hourly": 1.0, "spotHourly": 0.0},
        nodePools=[pool(), pool("gpu", nodes=1)],
        pendingPods=["a/1"],
        commands=[{}, {}],
        proposals=[{}],
        brakes=[brake(), brake(), brake(brake="stop")],
    )
    other = a_document(cluster="test", region="")
    text = organisation_table({"clusters": [one, other], "unreadable": []})
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["prod", "eu-west-1", "3", "1.0000", "1", "2", "1", "breaker,", "stop"],
        ["test", "-", "0", "0.0000", "0", "0", "0", "-"],
    ]
    text = organisation_table({"clusters": [one | {"account": "1"}, other | {"account": "2"}], "unreadable": []})
    assert [line.split()[:3] for line in text.splitlines()] == [
        ["CLUSTER", "ACCOUNT", "REGION"],
        ["prod", "1", "eu-west-1"],
        ["test", "2", "-"],
    ]


def test_a_command_names_its_replacements() -> None:
    lines = shown(a_document(commands=[a_command(replacements=[f"r-{n}" for n in range(4)])]))
    assert "c0ffee draining Drifted (drift) n1 r-0, r-1, r-2 +1 0.0000 11-20 09:30" in lines
