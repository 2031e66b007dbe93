"""The state of a cluster as data: what the objects show, and what the functions' table knows beside them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from adapters.store import SweepState
from cli.__main__ import main
from cli.answers import status as status_document_module
from cli.answers.status import (
    organisation_table,
    proposal_document,
    proposals_table,
    status_document,
    status_names,
    status_table,
)
from cli.schemas.decisions import CapAnswer, ForecastRampAnswer, StatusAnswer
from core import labels
from core.api.objects import JsonObject
from core.approval.proposal import EXPIRES_AFTER, Proposal, ProposalEnd, ProposalVerdict
from core.brakes import STOPS, Brake, BrakeKind, EngagedBrakes
from core.breakers import Breaker
from core.cluster_status import GOES, NOT_READY, ClusterStatus, CountedNode, PoolStatus
from core.disruption.budgets import BudgetChange
from core.forecast import Forecast, ForecastRules, Ramp, RoomUse
from core.lifecycle.records import CommandRecord, Deletion
from core.model.node_pool import Calendar, Cap
from core.model.plan import LAUNCHED, REGISTERED, Command, Move, ObjectRef, PlannedClaim
from core.model.values.quantity import NANODOLLARS
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type
from tests.contract.store.stores import claim as a_row

# A command that waits for approval, as data and as a row.


WAITING = Proposal(
    id="4711",
    command=Command(
        reason="Underutilized",
        method="single",
        nodes=("a", "b"),
        claims=("a", "b"),
        moves=(Move("shop/web", "n"),),
        savings=250_000_000,
    ),
    decision="7f3a",
    why="every command waits",
    text="node a goes",
    proposed_at=NOW,
)
APPROVED = ProposalVerdict(is_approved=True, by="ada", at=NOW)
REJECTED = ProposalVerdict(is_approved=False, by="ada", at=NOW)
LAPSED = ProposalEnd(reason="ProposalLapsed", message="no longer holds", at=NOW)
JUST_BEFORE = EXPIRES_AFTER - timedelta(seconds=1)


def test_a_waiting_proposal_has_everything_that_is_known_of_it() -> None:
    assert proposal_document(WAITING, NOW) == {
        "id": "4711",
        "state": "waits",
        "what": "remove a, b",
        "reason": "Underutilized",
        "why": "every command waits",
        "nodes": ["a", "b"],
        "moves": 1,
        "savings": 0.25,
        "decision": "7f3a",
        "proposedAt": "2026-11-20T00:00:00Z",
        "expiresAt": "2026-11-21T00:00:00Z",
        "text": "node a goes",
        "verdict": None,
        "end": None,
    }
    assert proposal_document(msgspec.structs.replace(WAITING, decision=""), NOW)["decision"] is None


@pytest.mark.parametrize(
    ("verdict", "end", "after", "state", "shown"),
    [
        (None, None, timedelta(0), "waits", "waits: every command waits"),
        (None, None, JUST_BEFORE, "waits", "waits: every command waits"),
        (None, None, EXPIRES_AFTER, "ended", "expired"),
        (APPROVED, None, timedelta(0), "approved", "approved by ada"),
        (REJECTED, None, timedelta(0), "rejected", "rejected by ada"),
        (REJECTED, LAPSED, timedelta(0), "ended", "ProposalLapsed: no longer holds"),
        (None, LAPSED, timedelta(0), "ended", "ProposalLapsed: no longer holds"),
    ],
)
def test_the_state_follows_verdict_end_and_time(
    verdict: ProposalVerdict | None, end: ProposalEnd | None, after: timedelta, state: str, shown: str
) -> None:
    document = proposal_document(msgspec.structs.replace(WAITING, verdict=verdict, end=end), NOW + after)
    assert document["state"] == state
    said = verdict and {"approved": verdict.is_approved, "by": "ada", "at": "2026-11-20T00:00:00Z"}
    assert document["verdict"] == said
    ended = end and {"reason": "ProposalLapsed", "message": "no longer holds", "at": "2026-11-20T00:00:00Z"}
    assert document["end"] == ended
    assert shown in proposals_table([document])


TYPE = a_type("m5.large", price=0.2)
CLAIM, STATUS_DOCUMENT_NODE = a_node_of(TYPE, "n1")
SHOWN = "2026-11-20T00:00:00Z"


def status(*, own: Any = None, **changes: Any) -> JsonObject:
    world = {"nodes": (STATUS_DOCUMENT_NODE,), "node_claims": (CLAIM,), **changes}
    return status_document(a_snapshot(types=(TYPE,), **world), own, cluster="prod")


def own(**changes: Any) -> Any:
    """What the functions know: nothing, but for this."""
    view = SimpleNamespace(claims=changes.pop("claims", {}), commands=changes.pop("commands", ()))
    nothing = {"forecast": None, "proposals": None, "brakes": EngagedBrakes(), "breakers": (), "sweeps": {}}
    return SimpleNamespace(view=view, **{**nothing, **changes})


def test_without_the_table_what_only_it_knows_is_null() -> None:
    document = status(pods=(a_pod("waits"),))
    assert (document["now"], document["cluster"], document["pendingPods"]) == (SHOWN, "prod", ["default/waits"])
    assert document["cost"] == {"hourly": 0.2, "monthly": 146.0, "spotHourly": 0.0}
    assert {key: document[key] for key in ("commands", "proposals", "brakes", "breakers", "sweeps")} == dict.fromkeys(
        ("commands", "proposals", "brakes", "breakers", "sweeps")
    )
    assert document["claims"] == [
        {
            "name": "default-n1",
            "nodePool": "default",
            "phase": "initialized",
            "node": "n1",
            "instanceType": "m5.large",
            "zone": "us-east-1a",
            "capacityType": "on-demand",
            "hourly": 0.2,
            "createdAt": "2026-11-19T22:00:00Z",
            "leavingSince": None,
            "leavingWhy": None,
            "message": None,
        }
    ]


def test_caps_and_forecasts_are_part_of_the_schema() -> None:
    cap = Cap(name="costs/all", limits={"nodes": 4}, periods={"Day": 24 * NANODOLLARS}, time_zone="UTC")
    ramp = Ramp(
        pool="default",
        weekdays=(0, 1, 2, 3, 4),
        starts=timedelta(hours=9),
        lasts=timedelta(minutes=5),
        pods=10,
        amounts={"cpu": 10000, "memory": 0},
        places=10,
        requests={"cpu": 1000},
        days=20,
        used_percent=90,
        covered_percent=90,
        waited=timedelta(seconds=60),
        hourly=3 * NANODOLLARS,
        recent=(RoomUse("2026-11-18", 10, 8), RoomUse("2026-11-19", 10, 12)),
    )
    forecast = Forecast(at=NOW, rules=ForecastRules(time_zone="UTC"), ramps=(ramp,))
    document = status(calendars=(Calendar(name="costs", caps=(cap,)),), own=own(forecast=forecast))
    properties = {field.encode_name for field in msgspec.structs.fields(StatusAnswer)}
    assert set(document) <= properties
    for kind, entries in ((CapAnswer, document["caps"]), (ForecastRampAnswer, document["forecast"])):
        (entry,) = entries
        msgspec.convert(entry, kind)
        assert set(entry) == {field.encode_name for field in msgspec.structs.fields(kind)}
    (shown,) = document["forecast"]
    assert (shown["recentDollars"], shown["recentPods"], shown["recentWaitSeconds"]) == (0.8, 18, 1080)
    table = status_table({**document, "prices": None})
    assert "18 min" in table
    assert "0.8000" in table


@pytest.mark.parametrize(
    ("conditions", "node_labels", "phase"),
    [
        ((), None, "requested"),
        ((LAUNCHED,), None, "launched"),
        ((LAUNCHED, REGISTERED), (), "launched"),
        ((LAUNCHED, REGISTERED), (labels.REGISTERED,), "registered"),
        ((LAUNCHED, REGISTERED), (labels.REGISTERED, labels.INITIALIZED), "initialized"),
    ],
)
def test_the_phase_is_the_furthest_that_claim_and_node_show(
    conditions: tuple[str, ...], node_labels: tuple[str, ...] | None, phase: str
) -> None:
    kept = {name: condition for name, condition in CLAIM.conditions.items() if name in conditions}
    claim = msgspec.structs.replace(CLAIM, conditions=kept)
    plain = {k: v for k, v in STATUS_DOCUMENT_NODE.labels.items() if k not in (labels.REGISTERED, labels.INITIALIZED)}
    joined = {**plain, **dict.fromkeys(node_labels or (), "true")}
    nodes = () if node_labels is None else (msgspec.structs.replace(STATUS_DOCUMENT_NODE, labels=joined),)
    (shown,) = status(nodes=nodes, node_claims=(claim,))["claims"]
    assert (shown["phase"], shown["node"]) == (phase, "n1" if nodes else None)


def test_a_claim_that_leaves_says_since_when_and_its_row_why() -> None:
    deleted = msgspec.structs.replace(CLAIM, deleted_at=NOW - timedelta(minutes=2))
    (shown,) = status(node_claims=(deleted,))["claims"]
    assert (shown["leavingSince"], shown["leavingWhy"]) == ("2026-11-19T23:58:00Z", None)
    asked = Deletion(reason="Drifted", asked_at=NOW - timedelta(minutes=5))
    row = msgspec.structs.replace(a_row(CLAIM.name), deletion=asked, message="a pod stays")
    (shown,) = status(own=own(claims={CLAIM.name: row}), node_claims=(deleted,))["claims"]
    assert (shown["leavingSince"], shown["leavingWhy"], shown["message"]) == (
        "2026-11-19T23:55:00Z",
        "Drifted",
        "a pod stays",
    )


def test_commands_and_proposals_are_listed() -> None:
    command = Command(
        reason="Drifted", method="drift", nodes=("n1",), claims=("c",), moves=(Move("a/p", "x"),), savings=-250_000_000
    )
    moments = {"created_at": NOW, "verify_at": NOW, "phase_since": NOW + timedelta(minutes=1)}
    record = CommandRecord(id="c0ffee", command=command, decision="7f3a", **moments)
    proposal = Proposal(id="4711", command=command, why="w", text="t", proposed_at=NOW)
    document = status(own=own(commands=(record,), proposals=(proposal,)))
    assert document["commands"] == [
        {
            "id": "c0ffee",
            "decision": "7f3a",
            "phase": record.phase,
            "reason": "Drifted",
            "method": "drift",
            "nodes": ["n1"],
            "replacements": [],
            "moves": 1,
            "savings": -0.25,
            "createdAt": SHOWN,
            "since": "2026-11-20T00:01:00Z",
        }
    ]
    assert [found["id"] for found in document["proposals"]] == ["4711"]
    launched = msgspec.structs.replace(record, replacements=("r-0",), decision="")
    (shown,) = status(own=own(commands=(launched,)))["commands"]
    assert (shown["replacements"], shown["decision"]) == (["r-0"], None)


def test_brakes_and_breakers_that_have_something_to_say() -> None:
    brake = Brake(BrakeKind.POOL_BREAKER, "it tripped", node_pool="general")
    breakers = (
        Breaker(node_pool="quiet"),
        Breaker(node_pool="failing", failures=1, message="no route"),
        Breaker(node_pool="open", open_until=NOW),
    )
    document = status(own=own(brakes=EngagedBrakes((brake,)), breakers=breakers))
    assert document["brakes"] == [
        {
            "brake": BrakeKind.POOL_BREAKER,
            "message": "it tripped",
            "nodePool": "general",
            "zone": None,
            "stops": [str(action) for action in STOPS[BrakeKind.POOL_BREAKER]],
        }
    ]
    assert [(found["nodePool"], found["failures"], found["openUntil"]) for found in document["breakers"]] == [
        ("failing", 1, None),
        ("open", 0, SHOWN),
    ]


def clean(minutes: int, failures: int = 0) -> SweepState:
    return SweepState(clean_at=NOW - timedelta(minutes=minutes), failures=failures, reason="Denied" if failures else "")


@pytest.mark.parametrize(
    ("states", "clean_at", "failing"),
    [
        ({}, None, []),
        ({"a": clean(3), "b": clean(1)}, "2026-11-19T23:59:00Z", []),
        ({"a": clean(3, 2), "b": clean(1)}, "2026-11-19T23:57:00Z", ["a"]),
        ({"b": clean(3, 2), "a": clean(5, 1), "c": clean(9)}, "2026-11-19T23:55:00Z", ["a", "b"]),
    ],
)
def test_reconcile_was_clean_when_all_of_its_sweeps_were(
    states: dict[str, SweepState], clean_at: str | None, failing: list[str]
) -> None:
    sweeps = status(own=own(sweeps=states))["sweeps"]
    assert (sweeps["cleanAt"], [found["name"] for found in sweeps["failing"]]) == (clean_at, failing)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Callable[..., JsonObject]:
    """What is shown of a NodePool with this status."""

    def shown(own_state: Any = None, **fields: Any) -> JsonObject:
        plain = {"nodes": 3, "starting": 1, "pods": 7, "hourly": 2_000_000_000, "spot_hourly": 500_000_000}
        plain |= {"budgets": {"Drifted": 1, "Empty": None}, "counted": (), "next_change": None}
        found = ClusterStatus(
            pools=(PoolStatus(name="general", **{**plain, **fields}),), foreign_nodes=2, pending_pods=()
        )
        monkeypatch.setattr(status_document_module, "cluster_status", lambda _: found)
        document = status(own=own_state)
        assert document["cost"] == {"hourly": 2.0, "monthly": 1460.0, "spotHourly": 0.5}
        assert document["foreignNodes"] == 2
        (only,) = document["nodePools"]
        return dict(only)

    return shown


def test_a_node_pool_shows_its_cost_and_budgets(pool: Callable[..., JsonObject]) -> None:
    assert pool() == {
        "name": "general",
        "nodes": 3,
        "starting": 1,
        "pods": 7,
        "hourly": 2.0,
        "spotHourly": 0.5,
        "budgets": {"Drifted": 1, "Empty": None},
        "takenBy": [],
        "nextWindow": None,
        "invalidBudget": None,
        "paused": None,
        "rollout": None,
    }


def test_a_node_pool_says_what_holds_its_nodes_back(pool: Callable[..., JsonObject]) -> None:
    change = BudgetChange(at=NOW + timedelta(hours=1), allowed={"Drifted": 2})
    held = pool(invalid_budget="no such day", paused="by a person", rollout="waits for n1", next_change=change)
    assert (held["invalidBudget"], held["paused"], held["rollout"]) == ("no such day", "by a person", "waits for n1")
    assert held["nextWindow"] == {"at": "2026-11-20T01:00:00Z", "allowed": {"Drifted": 2}}


def test_a_node_that_goes_is_named_with_the_reason_that_its_row_has(pool: Callable[..., JsonObject]) -> None:
    asked = Deletion(reason="Drifted", asked_at=NOW)
    row = msgspec.structs.replace(a_row("c"), deletion=asked, node_name="n1")
    booting = msgspec.structs.replace(a_row("c2"), deletion=asked, node_name="")
    known = own(claims={"c": row, "c2": booting, "c3": a_row("c3")})
    nodes = (*(CountedNode(name, GOES) for name in ("c2", "n1", "n2")), CountedNode("n1", NOT_READY))
    taken = pool(known, counted=nodes)["takenBy"]
    assert [(one["node"], one["why"]) for one in taken] == [
        ("c2", "Drifted"),
        ("n1", "Drifted"),
        ("n2", GOES),
        ("n1", NOT_READY),
    ]


def test_a_command_shows_the_replacements_that_it_plans_until_they_are_requested() -> None:
    planned = PlannedClaim(name="planned-0", node_pool="default", node_class=ObjectRef("g", "k", "n"))
    command = Command(reason="Drifted", method="drift", nodes=("n1",), claims=("c",), replacements=(planned,))
    record = CommandRecord(id="c", command=command, created_at=NOW, verify_at=NOW, phase_since=NOW)
    (shown,) = status(own=own(commands=(record,)))["commands"]
    assert shown["replacements"] == ["planned-0"]


def test_a_brake_names_the_zone_that_it_is_about() -> None:
    brake = Brake(BrakeKind.POOL_BREAKER, "it tripped", zone="us-east-1a")
    (shown,) = status(own=own(brakes=EngagedBrakes((brake,))))["brakes"]
    assert (shown["zone"], shown["nodePool"]) == ("us-east-1a", None)


def test_nodes_are_listed_by_the_names_of_their_claims() -> None:
    kind = a_type("m5.large")
    pairs = [a_node_of(kind, name, pool=pool) for name, pool in (("n1", "z"), ("n2", "a"), ("n3", "m"))]
    world = a_snapshot(
        types=(kind,), nodes=tuple(node for _, node in pairs), node_claims=tuple(claim for claim, _ in pairs)
    )
    names = [found["name"] for found in status_document_module._claims(world, {})]
    assert names == ["a-n2", "m-n3", "z-n1"]


# The status of a cluster names its nodes whole.


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


def status_table_pool(name: str = "general", **changes: Any) -> JsonObject:
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
        nodePools=[status_table_pool(), status_table_pool("gpu", nodes=1)],
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
            "general 2 5 0.5000 0, but 2 Drifted - -",
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
    assert shown(a_document(nodePools=[status_table_pool(**changes)]))[2] == row


def test_what_is_wrong_with_a_node_pool_stands_below_the_table() -> None:
    document = a_document(
        nodePools=[
            status_table_pool(invalidBudget="bad cron", paused="by hand"),
            status_table_pool("b", rollout="stopped"),
        ]
    )
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
        nodePools=[status_table_pool(), status_table_pool("gpu", nodes=1)],
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


def test_groups_show_how_many_members_run_where_and_for_how_much() -> None:
    """A training job is looked after as one thing."""
    assert "groups" not in status()
    claim, node = a_node_of(TYPE)
    notes = {labels.GROUP: "train", labels.GROUP_MINIMUM: "3"}
    running = [a_pod(f"t-{i}", node_name=node.name, phase="Running", annotations=notes) for i in range(2)]
    waiting = a_pod("t-2", annotations=notes)
    (found,) = status(pods=(*running, waiting), nodes=(node,), node_claims=(claim,))["groups"]
    assert (found["name"], found["members"], found["placed"]) == ("default/train", 3, 2)
    assert found["domain"] == {labels.ZONE: node.labels[labels.ZONE]}
    assert found["hourly"] == status(nodes=(node,), node_claims=(claim,))["cost"]["hourly"] > 0
    (missing,) = status(pods=(waiting,))["groups"]
    assert (missing["placed"], missing["reason"], missing["domain"]) == (0, "GroupIncomplete", {})
