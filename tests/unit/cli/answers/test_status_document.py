"""The state of a cluster as data: what the objects show, and what the functions' table knows beside them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from adapters.store import SweepState
from cli.answers import status_document as status_document_module
from cli.answers.status_document import status_document
from core import labels
from core.api.objects import JsonObject
from core.approval.proposal import Proposal
from core.brakes.brake import STOPS, Brake, BrakeKind, EngagedBrakes
from core.brakes.breaker import Breaker
from core.cluster_status import GOES, NOT_READY, ClusterStatus, CountedNode, PoolStatus
from core.disruption.budgets.next_change import BudgetChange
from core.lifecycle.records import CommandRecord, Deletion
from core.model.node_claim import LAUNCHED, REGISTERED, ObjectRef
from core.model.plan import Command, Move, PlannedClaim
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type
from tests.contract.store.stores import claim as a_row

TYPE = a_type("m5.large", price=0.2)
CLAIM, NODE = a_node_of(TYPE, "n1")
SHOWN = "2026-11-20T00:00:00Z"


def status(*, own: Any = None, **changes: Any) -> JsonObject:
    world = {"nodes": (NODE,), "node_claims": (CLAIM,), **changes}
    return status_document(a_snapshot(types=(TYPE,), **world), own, cluster="prod")


def own(**changes: Any) -> Any:
    """What the functions know: nothing, but for this."""
    view = SimpleNamespace(claims=changes.pop("claims", {}), commands=changes.pop("commands", ()))
    nothing = {"proposals": None, "brakes": EngagedBrakes(), "breakers": (), "sweeps": {}}
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
    plain = {k: v for k, v in NODE.labels.items() if k not in (labels.REGISTERED, labels.INITIALIZED)}
    joined = {**plain, **dict.fromkeys(node_labels or (), "true")}
    nodes = () if node_labels is None else (msgspec.structs.replace(NODE, labels=joined),)
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
