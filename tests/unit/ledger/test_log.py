"""The log counts each saving once, and only if it was realized."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from core.ledger.entry import DISRUPT, PROVISION, LedgerEntry
from core.ledger.log import by_decision, concerns, log_entry
from core.ledger.outcome import DecisionOutcome, OutcomeState, decode_outcomes, encode_outcomes
from core.ledger.summary import of_disruption, of_provisioning
from core.model.node_claim import ObjectRef
from core.model.plan import Blocked, Command, DisruptionPlan, Move, PlannedClaim
from tests.builders import NOW

CLAIM = PlannedClaim(
    name="default-1",
    node_pool="default",
    node_class=ObjectRef("", "", "default"),
    instance_types=("m5.large", "m5.xlarge"),
    pods=("shop/a", "shop/b"),
    price=100,
)
COMMAND = Command(
    reason="Underutilized", method="single", nodes=("n1",), claims=("c1",), moves=(Move("shop/a", "n2"),), savings=30
)


def entry(function: str, summary: Any) -> LedgerEntry:
    return LedgerEntry(
        id="7f3a",
        at=NOW,
        cluster="c",
        function=function,
        version="1",
        catalogue="",
        base="",
        plan_digest="",
        what=summary.what,
        reason=summary.reason,
        parts=summary.parts,
        bindings=summary.bindings,
        refused=summary.refused,
    )


def disruption(*begun: tuple[str, Command]) -> LedgerEntry:
    plan = DisruptionPlan(now=NOW, commands=(COMMAND,), blocked=(Blocked("n9", "Budget", "…"),))
    return entry(DISRUPT, of_disruption(plan, begun))


def ended(part: str, state: OutcomeState, reason: str = "", *, after: int = 0) -> DecisionOutcome:
    at = NOW + timedelta(seconds=after)
    return DecisionOutcome(decision="7f3a", part=part, state=state, at=at, reason=reason)


def test_a_launch_shows_its_pods_and_its_cost() -> None:
    line = log_entry(entry(PROVISION, of_provisioning([CLAIM], [("shop/c", "n3")], [("shop/d", "LimitReached")])), ())
    assert line.what == "launch 1 node (1 x m5.large) for 2 pods; 1 pod on nodes that exist; 1 pod without a place"
    assert (line.reason, line.hourly, line.moves) == ("Launched", 100, 0)
    assert line.objects == ("NodeClaim/default-1", "Node/n3", "Pod/shop/a", "Pod/shop/b", "Pod/shop/c", "Pod/shop/d")


def test_a_command_that_waits_for_its_turn_saves_nothing_yet() -> None:
    """The next run finds it again: counted in each, one saving is reported many times."""
    assert log_entry(disruption(), ()).hourly == 0
    assert log_entry(disruption(), ()).reason == "Budget"
    assert log_entry(disruption(("k1", COMMAND)), ()).hourly == -30


def test_commands_without_effect_count_nothing() -> None:
    decided = disruption(("k1", COMMAND), ("k2", COMMAND))
    given_up = ended("k1", OutcomeState.ABANDONED, "NodesChanged")
    half = log_entry(decided, [given_up, ended("k2", OutcomeState.DONE)])
    assert (half.hourly, half.moves, half.state) == (-30, 1, "done in part: NodesChanged")
    none = log_entry(decided, [given_up, ended("k2", OutcomeState.ABANDONED, "NodesChanged")])
    assert (none.hourly, none.moves, none.state) == (0, 0, "came to nothing: NodesChanged")


def test_a_launch_that_is_refused_and_then_made_counts() -> None:
    """The last outcome counts: `execute` tries a claim again."""
    told = [ended("default-1", OutcomeState.DONE, after=9), ended("default-1", OutcomeState.REFUSED, "X", after=1)]
    line = log_entry(entry(PROVISION, of_provisioning([CLAIM], (), ())), by_decision(told)["7f3a"])
    assert (line.hourly, line.state) == (100, "done")


def test_a_command_without_an_outcome_is_in_progress() -> None:
    assert log_entry(disruption(("k1", COMMAND)), ()).state == "under way"


def test_a_decision_is_found_by_its_pods_and_nodes() -> None:
    line = log_entry(disruption(("k1", COMMAND)), ())
    assert concerns(line, pod="shop/a")
    assert concerns(line, node="n1")
    assert concerns(line, node="n9")
    assert not concerns(line, pod="shop/zzz")
    assert not concerns(line, node="n2-other")
    launch = log_entry(entry(PROVISION, of_provisioning([CLAIM], (), ())), ())
    assert concerns(launch, node="default-1")


def test_an_empty_decision_is_shown_as_such() -> None:
    assert of_disruption(DisruptionPlan(now=NOW), ()).reason == "NothingToDo"
    assert of_provisioning((), (), ()).what == "nothing to do"


def test_outcomes_round_trip() -> None:
    told = [ended("k1", OutcomeState.ABANDONED, "Budget")]
    assert decode_outcomes(encode_outcomes(told)) == told
