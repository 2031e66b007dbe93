"""Lines over time: pods that wait, instances by capacity type, dollars an hour and dollars spent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.report.series import (
    POINTS_MAX,
    Chain,
    NodeLifetime,
    chains,
    commands_by_claim,
    consolidated,
    from_events,
    lives,
    replacements,
)

# A row tells a command, a launch or another decision: what, which nodes, why, and its steps in order.


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


# The life of a node is what the record says of it, of its instance and of its pods, and of nothing else.


LAUNCHED = {
    "instance": "i-1",
    "instanceType": "m5.large",
    "zone": "a",
    "capacityType": "spot",
    "price": 0.5,
    "tags": {"karpenter.sh/nodepool": "web"},
}
JOINED = {"providerID": "aws:///a/i-1", "node": "n1", "nodeClaim": "web-1"}
DISRUPTED = {"node": "n1", "key": "karpenter.sh/disrupted"}


def lived(*events: tuple[str, dict[str, Any]]) -> NodeLifetime:
    """The life of i-1, whose events are a minute apart."""
    every = (("instanceLaunched", LAUNCHED), ("nodeJoined", JOINED), *events)
    (found,) = lives([(START + minute * timedelta(minutes=1), *event) for minute, event in enumerate(every)])
    return found


def minutes(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - START) / timedelta(minutes=1)


def test_a_whole_life() -> None:
    found = lived(
        ("podCreated", {"pod": "kube-system/daemon", "owner": "DaemonSet/daemon"}),
        ("nodeReady", {"node": "n1"}),
        ("nodeReady", {"node": "n1"}),
        ("podBound", {"node": "n1", "pod": "shop/a"}),
        ("podBound", {"node": "n1", "pod": "kube-system/daemon"}),
        ("interruptionNotice", {"instance": "i-1"}),
        ("interruptionNotice", {"instance": "i-1"}),
        ("nodeTainted", {**DISRUPTED, "reason": "Empty"}),
        ("podEvicted", {"node": "n1", "pod": "shop/a"}),
        ("podEvicted", {"node": "n1", "pod": "kube-system/daemon"}),
        ("instanceTerminated", {"instance": "i-1"}),
        ("nodeDeleted", {"node": "n1"}),
    )
    known = ("name", "claim", "pool", "instance_type", "zone", "capacity_type", "price", "reason", "pods")
    assert {key: getattr(found, key) for key in known} == {
        "name": "n1",
        "claim": "web-1",
        "pool": "web",
        "instance_type": "m5.large",
        "zone": "a",
        "capacity_type": "spot",
        "price": 0.5,
        "reason": "Empty",
        "pods": ["shop/a"],
    }
    moments = (found.launched, found.joined, found.ready, found.noticed, found.disrupted, found.ended, found.deleted)
    assert [*map(minutes, moments)] == [0, 1, 3, 7, 9, 12, 13]
    assert [(minutes(at), pod) for at, pod in found.evicted] == [(10, "shop/a")]
    assert found.cost(START + timedelta(hours=9)) == 0.5 * 12 / 60


def test_only_the_taint_of_disruption_disrupts_and_it_may_be_taken_back() -> None:
    other = ("nodeTainted", {"node": "n1", "key": "node.kubernetes.io/not-ready", "reason": "Odd"})
    assert (lived(other).disrupted, lived(other).reason) == (None, "")
    tainted = ("nodeTainted", {**DISRUPTED, "reason": "Drifted"})
    unrelated = [
        ("nodeUntainted", {**other[1]}),
        ("nodeReady", DISRUPTED),
        ("nodeTainted", {**DISRUPTED, "node": "n2"}),
    ]
    kept = lived(tainted, *unrelated)
    assert (minutes(kept.disrupted), kept.reason) == (2, "Drifted")
    back = lived(tainted, ("nodeUntainted", DISRUPTED))
    assert (back.disrupted, back.reason) == (None, "")


def test_an_instance_that_never_joins_has_the_name_of_its_own() -> None:
    found = lives(
        [(START, "instanceLaunched", {"instance": "i-1"}), (START, "nodeJoined", {**JOINED, "providerID": "x"})]
    )
    assert [(one.name, one.capacity_type, one.price, one.pool, one.joined) for one in found] == [
        ("i-1", "on-demand", 0.0, "", None)
    ]
    assert found[0].cost(START + timedelta(hours=1)) == 0.0


def test_other_events_and_other_taints_change_nothing_of_a_disruption() -> None:
    other = {"node": "n1", "key": "node.kubernetes.io/not-ready", "reason": "NotReady"}
    tainted = ("nodeTainted", {**DISRUPTED, "reason": "Drifted"})
    assert lived(("nodeTainted", other), ("nodeChanged", {**DISRUPTED, "reason": "x"})).disrupted is None
    going = lived(tainted, ("nodeUntainted", other), ("nodeChanged", DISRUPTED))
    assert (minutes(going.disrupted), going.reason) == (2, "Drifted")
    kept = lived(tainted, ("nodeUntainted", DISRUPTED))
    assert (kept.disrupted, kept.reason) == (None, "")
    assert lived(("nodeTainted", {**DISRUPTED, "reason": None})).reason == ""


def test_what_the_record_does_not_say_is_empty() -> None:
    (found,) = lives([(START, "instanceLaunched", {"instance": "i-1", "price": None, "tags": None, "zone": None})])
    assert (found.name, found.claim, found.pool, found.zone, found.instance_type) == ("i-1", "", "", "", "")
    assert (found.capacity_type, found.price, found.cost(START + timedelta(hours=1))) == ("on-demand", 0.0, 0.0)


def test_a_life_costs_its_price_for_as_long_as_it_lasts() -> None:
    end = START + timedelta(hours=2)
    assert lived().cost(end) == 1.0
    assert (
        lived(*[("podBound", {"node": "n1", "pod": "p"})] * 28, ("instanceTerminated", {"instance": "i-1"})).cost(end)
        == 0.25
    )


def test_events_of_other_nodes_and_instances_are_not_its_own() -> None:
    quiet = lived(
        ("nodeJoined", {"providerID": "aws:///a/i-2", "node": "n2"}),
        ("nodeJoined", {"providerID": None, "node": "n3"}),
        ("nodeReady", {"node": "n2"}),
        ("instanceTerminated", {"instance": "i-2"}),
        ("podCreated", {"pod": "shop/a", "owner": "Deployment/a"}),
        ("podBound", {"node": "n2", "pod": "shop/a"}),
    )
    assert (quiet.name, quiet.ready, quiet.ended, quiet.pods) == ("n1", None, None, [])


def recorded(*events: tuple[float, str, dict[str, Any]]) -> list[tuple[datetime, str, dict[str, Any]]]:
    return [(START + timedelta(minutes=minutes), event, fields) for minutes, event, fields in events]


def launched(instance: str, price: float, **more: str) -> tuple[str, dict[str, Any]]:
    return "instanceLaunched", {"instance": instance, "price": price, **more}


def test_no_events_make_empty_lines() -> None:
    lines = from_events([])
    assert (lines.times, lines.pending, lines.nodes, lines.spent) == ((), (), {}, ())


def test_a_pod_waits_from_its_creation_until_it_is_bound_deleted_or_finished() -> None:
    pods = [{"pod": f"a/{number}", "owner": "ReplicaSet/r"} for number in range(3)]
    lines = from_events(
        recorded(
            *((number, "podCreated", pod) for number, pod in enumerate(pods)),
            (2.5, "podCreated", {"pod": "a/daemon", "owner": "DaemonSet/d"}),
            (3, "podBound", pods[0]),
            (4, "podDeleted", pods[1]),
            (5, "podFinished", pods[2]),
            (6, "podFinished", pods[2]),
        )
    )
    assert lines.pending == (1, 2, 3, 3, 2, 1, 0, 0)


def test_money_counts_from_launch_to_end_and_instances_by_capacity_type() -> None:
    lines = from_events(
        recorded(
            (0, *launched("i-1", 1.0)),
            (30, *launched("i-2", 0.5, capacityType="spot")),
            (60, "instanceTerminated", {"instance": "i-1"}),
            (90, "instanceTerminated", {"instance": "i-1"}),
        )
    )
    assert lines.nodes == {"on-demand": (1, 1, 0, 0), "spot": (0, 1, 1, 1)}
    assert (lines.hourly, lines.kept) == ((1.0, 1.5, 0.5, 0.5),) * 2
    assert lines.spent == pytest.approx((0.0, 0.5, 1.25, 1.5))


def test_without_consolidation_what_it_removed_stays_and_what_it_launched_never_came() -> None:
    lines = from_events(
        recorded(
            (0, *launched("removed", 1.0)),
            (0, *launched("other", 0.25)),
            (30, *launched("replacement", 0.5)),
            (60, "instanceTerminated", {"instance": "removed"}),
            (61, "instanceTerminated", {"instance": "other"}),
            (62, "end", {}),
        ),
        {"removed"},
        {"replacement"},
    )
    assert lines.kept == (1.25, 1.25, 1.25, 1.0, 1.0)
    assert lines.hourly == (1.25, 1.75, 0.75, 0.5, 0.5)


def test_of_events_closer_than_a_pixel_the_peak_of_waiting_pods_and_the_last_of_all_else_are_drawn() -> None:
    pixel = 60 / POINTS_MAX
    waiting = {"pod": "a/p"}
    lines = from_events(
        recorded(
            (0, "podCreated", waiting),
            (pixel / 2, *launched("i-1", 1.0)),
            (pixel / 2, "podBound", waiting),
            (pixel, *launched("i-2", 1.0)),
            (60, "end", {}),
        )
    )
    assert lines.times == tuple(START + timedelta(minutes=minutes) for minutes in (0, pixel, 60))
    assert (lines.pending, lines.hourly) == ((1, 0, 0), (1.0, 2.0, 2.0))
