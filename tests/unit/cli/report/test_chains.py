"""A row tells a command, a launch or another decision: what, which nodes, why, and its steps in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.report.chains import Chain, chains, commands_by_claim, consolidated, replacements
from cli.report.node_lifetimes import NodeLifetime

START = datetime(2026, 11, 20, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def life(number: int, claim: str = "", **known: Any) -> NodeLifetime:
    tags = {"karpenter.sh/nodepool": claim.partition("-")[0]} if claim else {}
    fields = {
        "instance": f"i-{number}",
        "instanceType": "m5.large",
        "capacityType": "spot",
        "price": 0.25,
        "tags": tags,
    }
    found = NodeLifetime(at(number), fields)
    found.claim = claim
    for name, value in known.items():
        setattr(found, name, value)
    return found


def decision(minutes: float, kind: str, subject: str, **known: str) -> dict[str, Any]:
    return {"at": at(minutes), "kind": kind, "subject": subject, **known}


def steps(row: Chain) -> list[tuple[float, str, str]]:
    return [((moment - START) / timedelta(minutes=1), word, about) for moment, word, about in row.links]


def test_a_launch_is_one_row_for_its_batch() -> None:
    found = chains(
        [
            life(1, "web-b1-0", joined=at(2), ready=at(4), pods=["a/p", "a/q"]),
            life(2, "web-b1-1", joined=at(3), pods=["a/q"], capacity_type="on-demand", node="n2"),
        ],
        [],
    )
    assert [(row.at, row.what, row.which, row.reason, row.nodes) for row in found] == [
        (at(1), "launch", "i-1, n2", "", ("i-1", "n2"))
    ]
    assert found[0].why == "2 nodes of web, $0.5000 an hour; 2 pods ran there"
    assert steps(found[0]) == [
        (1, "launched", "m5.large spot, m5.large on-demand"),
        (3, "joined", "120 s after the launch"),
        (4, "ready", "180 s after the launch"),
    ]


def test_an_instance_that_never_joined_has_a_row_of_its_own() -> None:
    found = chains([life(1), life(2)], [])
    assert [(row.which, row.why) for row in found] == [
        ("i-1", "1 node of no NodePool, $0.2500 an hour; 0 pods ran there"),
        ("i-2", "1 node of no NodePool, $0.2500 an hour; 0 pods ran there"),
    ]


COMMAND = [
    decision(8, "disrupt", "n1", message="multi, saves 0.1"),
    decision(9, "disrupt", "n2", message="the second node of the command"),
    decision(12, "terminate", "web-b1-0", message="command c0ffee, multi"),
    decision(12, "terminate", "web-b1-1", message="command c0ffee, multi"),
]
GOING: dict[str, Any] = {"reason": "Underutilized", "disrupted": at(12)}


def test_a_command_is_one_row_for_its_nodes_and_their_replacement() -> None:
    lives = [
        life(1, "web-b1-0", node="n1", ended=at(14), evicted=[(at(13), "a/p")], **GOING),
        life(2, "web-b1-1", node="n2", ended=at(15), evicted=[(at(15), "a/q")], **{**GOING, "disrupted": at(13)}),
        life(10, "web-c0ffee-0", node="n3", ready=at(11), price=0.125),
    ]
    (row,) = (row for row in chains(lives, COMMAND) if row.what == "disruption")
    assert (row.at, row.which, row.reason, row.nodes) == (at(8), "n1, n2", "Underutilized", ("n1", "n2"))
    assert row.why == "saves $0.3750 an hour, 2 pods moved"
    assert steps(row) == [
        (8, "decided", "multi, saves 0.1"),
        (11, "replaced", "n3, m5.large"),
        (12, "disrupted", "no new pods come"),
        (15, "drained", "2 pods"),
        (15, "gone", ""),
    ]


@pytest.mark.parametrize(("price", "why"), [(0.25, "saves $0.0000"), (0.125, "saves $0.1250"), (0.5, "costs $0.2500")])
def test_a_command_saves_or_costs_what_its_nodes_cost_less_the_replacements(price: float, why: str) -> None:
    lives = [life(1, "web-b1-0", node="n1", **GOING), life(10, "web-c0ffee-0", price=price)]
    (row,) = (row for row in chains(lives, COMMAND) if row.what == "disruption")
    assert row.why == f"{why} an hour, 0 pods moved"
    assert steps(row)[1] == (10, "replaced", "i-10, m5.large")  # it is not ready yet


def test_a_node_that_is_being_emptied_has_not_gone() -> None:
    (row,) = (
        row for row in chains([life(1, "web-b1-0", evicted=[(at(3), "a/p")], **GOING)], []) if row.what == "disruption"
    )
    assert [(word, about) for _, word, about in steps(row)] == [("drained", "1 pod"), ("disrupted", "no new pods come")]


@pytest.mark.parametrize(("minutes", "word"), [(6, "drained"), (7, "drained"), (8, "pods lost")])
def test_pods_that_leave_after_their_instance_are_lost(minutes: float, word: str) -> None:
    taken = life(1, "web-b1-0", noticed=at(5), ended=at(7), evicted=[(at(minutes), "a/p")])
    (row,) = (row for row in chains([taken], []) if row.what == "interruption")
    assert (row.at, row.why, row.reason) == (at(5), "EC2 takes the capacity back", "")
    assert sorted(steps(row)) == sorted([(5, "notice", "EC2 takes i-1"), (minutes, word, "1 pod"), (7, "gone", "")])


def test_decisions_that_are_steps_of_a_chain_have_no_row_and_all_others_have_one() -> None:
    followed = ("launch", "register", "initialize", "terminate", "drain", "forget", "interrupt", "disrupt")
    other = decision(2, "skip", "a/p", reason="NoRoom", message="first\nsecond")
    assert chains([], [*(decision(1, kind, "n1") for kind in followed), other, decision(1, "repair", "n1")]) == [
        Chain(at=at(1), what="repair", which="n1", reason="", why=""),
        Chain(at=at(2), what="skip", which="a/p", reason="NoRoom", why="first; second"),
    ]


def test_only_ended_nodes_that_were_empty_or_underutilized_were_consolidated() -> None:
    reasons = ("Empty", "Underutilized", "Drifted", "")
    lives = [life(number, reason=reason, ended=at(9)) for number, reason in enumerate(reasons)]
    assert consolidated([*lives, life(7, reason="Empty")]) == tuple(lives[:2])


def test_replacements_are_launched_by_a_command_of_consolidation() -> None:
    gone = life(1, "web-b1-0", reason="Underutilized", ended=at(9))
    drifted = life(2, "web-b1-1", reason="Drifted", ended=at(9))
    decided = [
        decision(3, "terminate", "web-b1-0", message="command c0ffee, multi"),
        decision(3, "terminate", "web-b1-1", message="command beef, drift"),
        decision(3, "skip", "web-b1-9", message="command c0ffee"),
        decision(3, "terminate", "web-b1-8"),
    ]
    assert commands_by_claim(decided) == {"web-b1-0": "c0ffee", "web-b1-1": "beef"}
    others = [life(4, "web-beef-0"), life(5, "c0ffee-0"), life(6, "")]
    assert [r.claim for r in replacements([gone, drifted, life(3, "two-part-c0ffee-1"), *others], decided)] == [
        "two-part-c0ffee-1"
    ]


def test_nodes_that_no_command_removed_have_a_row_each() -> None:
    taken = [life(number, f"web-b1-{number}", noticed=at(5), ended=at(7)) for number in (1, 2)]
    assert [row.which for row in chains(taken, []) if row.what == "interruption"] == ["i-1", "i-2"]


def test_only_a_decision_to_disrupt_decides_and_one_notice_makes_an_interruption() -> None:
    lives = [life(1, "web-b1-0", node="n1", noticed=at(9), **GOING), life(2, "web-b1-1", node="n2", **GOING)]
    skipped = decision(4, "skip", "n1", message="not yet")
    (row,) = (row for row in chains(lives, [skipped, *COMMAND]) if row.what == "interruption")
    assert (row.which, row.why) == ("n1, n2", "EC2 takes the capacity back")
    assert steps(row)[:2] == [(8, "decided", "multi, saves 0.1"), (9, "notice", "EC2 takes n1")]


def test_each_batch_has_its_row_and_a_node_that_only_has_a_reason_its_own() -> None:
    lives = [life(1, "web-b1-0"), life(2, "web-b1-1"), life(3, "web-b2-0", reason="Empty"), life(4)]
    found = [(row.what, row.at, row.nodes) for row in chains(lives, [])]
    assert found == [
        ("launch", at(1), ("i-1", "i-2")),
        ("disruption", at(3), ("i-3",)),
        ("launch", at(3), ("i-3",)),
        ("launch", at(4), ("i-4",)),
    ]
