"""The log counts each saving once, and only if it was realized."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.ledger.entry import DISRUPT, PROVISION, LedgerEntry, LedgerPart
from core.ledger.log import by_decision, concerns, log_entry
from core.ledger.outcome import DecisionOutcome, OutcomeState, approval_part, decode_outcomes, encode_outcomes
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


LATEST = (
    ("none", None),
    ("done", (OutcomeState.DONE, "")),
    ("abandoned", (OutcomeState.ABANDONED, "Budget")),
    ("refused", (OutcomeState.REFUSED, "ICE")),
)


@pytest.mark.parametrize("function", [PROVISION, DISRUPT])
@pytest.mark.parametrize("is_observed", [False, True])
def test_the_line_of_every_pair_of_parts(function: str, is_observed: bool) -> None:
    """Two parts, each started or waiting for approval, approved or not, with each outcome, by a statement in other words."""
    kinds = [(waits, approved, latest) for waits in (False, True) for approved in (False, True) for latest in LATEST]
    for pair in itertools.product(kinds, repeat=2):
        parts = [
            LedgerPart(id=f"k{n}", reason="R", pods=("shop/a",) * n, hourly=-(10**n), waits="Approval" if waits else "")
            for n, (waits, _, _) in enumerate(pair, 1)
        ]
        told = [ended(f"k{n}", *latest) for n, (_, _, (_, latest)) in enumerate(pair, 1) if latest is not None]
        told += [
            ended(approval_part(f"k{n}"), OutcomeState.DONE) for n, (_, approved, _) in enumerate(pair, 1) if approved
        ]
        decided = LedgerEntry(
            id="7f3a", at=NOW, cluster="c", function=function, version="1", catalogue="", base="", plan_digest="",
            what="", reason="", parts=tuple(parts), is_observed=is_observed,
        )  # fmt: skip
        line = log_entry(decided, told)
        waiting = [waits and not approved and name == "none" for waits, approved, (name, _) in pair]
        lost = [name in ("abandoned", "refused") for _, _, (name, _) in pair]
        counts = [not is_observed and not w and not gone for w, gone in zip(waiting, lost, strict=True)]
        assert line.hourly == -10 * counts[0] - 100 * counts[1]
        assert line.moves == (counts[0] + 2 * counts[1] if function == DISRUPT else 0)
        why = ", ".join(sorted({latest[1] for _, _, (name, latest) in pair if latest and name != "done"}))
        if is_observed:
            assert line.state == "observed"
        elif all(lost):
            assert line.state == f"came to nothing: {why}"
        elif any(waiting):
            assert line.state == "waits for approval"
        elif any(latest is None for _, _, (_, latest) in pair):
            assert line.state == ("under way" if function == DISRUPT else "decided")
        else:
            assert line.state == (f"done in part: {why}" if any(lost) else "done")


def test_outcomes_are_kept_by_decision_in_order_of_time() -> None:
    first, last = ended("k1", OutcomeState.REFUSED, "X", after=1), ended("k1", OutcomeState.DONE, after=2)
    other = msgspec.structs.replace(first, decision="9999")
    assert by_decision([last, other, first]) == {"7f3a": [first, last], "9999": [other]}


def test_a_decision_is_of_a_pod_and_a_node_only_if_both_are() -> None:
    line = log_entry(disruption(("k1", COMMAND)), ())
    for pod, is_pods in (("shop/a", True), ("shop/z", False), ("", True)):
        for node, is_nodes in (("n1", True), ("n2", False), ("", True)):
            assert concerns(line, pod=pod, node=node) == (is_pods and is_nodes), (pod, node)


def test_a_node_is_named_by_itself_alone() -> None:
    """A pod or a NodeClaim of the name of a node is not that node."""
    named = msgspec.structs.replace(CLAIM, name="other", pods=("n7/a",))
    line = log_entry(entry(PROVISION, of_provisioning([named], [("n8", "n9")], ())), ())
    assert line.objects == ("NodeClaim/other", "Node/n9", "Pod/n7/a", "Pod/n8")
    assert [concerns(line, node=name) for name in ("other", "n9", "n8", "Pod/n8", "Node/n9")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_command_is_no_node_claim() -> None:
    line = log_entry(disruption(("k1", COMMAND)), ())
    assert line.objects == ("Command/k1", "Node/n1", "Node/n9", "Pod/shop/a")
    assert not concerns(line, node="k1")


def test_a_decision_without_parts_is_decided() -> None:
    assert log_entry(entry(PROVISION, of_provisioning((), (), ())), ()).state == "decided"
