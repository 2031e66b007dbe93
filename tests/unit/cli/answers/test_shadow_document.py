"""The comparison counts both fleets alike, and names everything in which ours would have been worse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from cli.answers.shadow_document import BOOT, LONG_WAIT, NAMED_MAX, shadow_document
from core.api.objects import JsonObject
from core.counterfactual.broken_rules import BrokenRule
from core.counterfactual.recorded_fleet import RecordedFleetResult
from core.counterfactual.simulated_fleet import Placement
from core.counterfactual.simulated_period import RecordedPeriod, SimulatedPeriod

START = datetime(2026, 11, 20, tzinfo=UTC)
DOLLAR = 1_000_000_000


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


PERIOD = RecordedPeriod(since=START, until=at(120), snapshots=3, cost=10 * DOLLAR)
RECORDED = RecordedFleetResult(
    cost=10 * DOLLAR,
    hours=4.00004,
    launched=2,
    evicted=5,
    displaced=1,
    nodes=2,
    arrived={},
    waits={},
    boot=None,
    series=(),
    minimum=None,
)
SIMULATED = SimulatedPeriod(
    cost=8 * DOLLAR,
    by_pool={},
    hours=3.0,
    launched=1,
    moves=4,
    waited=0,
    unplaced=(),
    nodes=1,
    commands={"Empty": 1},
    series=(),
)


def compared(recorded: dict[str, Any] | None = None, **simulated: Any) -> JsonObject:
    theirs = msgspec.structs.replace(RECORDED, **(recorded or {}))
    return shadow_document(PERIOD, theirs, msgspec.structs.replace(SIMULATED, **simulated))


def worse(document: JsonObject) -> list[tuple[str, str, list[str]]]:
    return [(found["what"], found["message"], found["pods"]) for found in document["worse"]]


def test_a_pod_that_never_had_a_place_has_no_wait() -> None:
    """It counted as one that did not wait."""
    document = compared({"arrived": {"a/left": START}}, never_placed=("a/left",), unplaced=())
    waits = document["simulated"]["waits"]
    assert (waits["pods"], waits["p50"], waits["withoutPlace"]) == (0, None, ["a/left"])


@pytest.mark.parametrize(("days", "said"), [(0.1, "every 5 minutes at most"), (7, "every 40 minutes at most")])
def test_the_pace_of_the_simulation_is_said(days: float, said: str) -> None:
    period = msgspec.structs.replace(PERIOD, until=PERIOD.since + timedelta(days=days))
    assert said in shadow_document(period, RECORDED, SIMULATED)["assumptions"][-1]


def test_the_difference_is_ours_less_theirs() -> None:
    document = compared()
    assert (document["from"], document["to"], document["snapshots"]) == (
        "2026-11-20T00:00:00Z",
        "2026-11-20T02:00:00Z",
        3,
    )
    nobody = {"pods": 0, "p50": None, "max": None, "long": 0, "withoutPlace": []}
    assert document["recorded"] == {
        "dollars": 10.0,
        "monthly": 3650.0,
        "nodeHours": 4.0,
        "nodesLaunched": 2,
        "nodesAtEnd": 2,
        "evictions": 5,
        "otherEvictions": 1,
        "waits": nobody,
    }
    assert document["simulated"] == {
        "dollars": 8.0,
        "monthly": 2920.0,
        "nodeHours": 3.0,
        "nodesLaunched": 1,
        "nodesAtEnd": 1,
        "evictions": 4,
        "commands": {"Empty": 1},
        "waits": nobody,
    }
    difference = {"dollars": -2.0, "share": -0.2, "monthly": -730.0, "evictions": -1, "waitedLong": 0}
    assert document["difference"] == difference
    assert (worse(document), document["violations"], document["provenMinimum"]) == ([], [], None)


def test_a_period_without_length_has_no_monthly_cost() -> None:
    document = shadow_document(msgspec.structs.replace(PERIOD, until=START), RECORDED, SIMULATED)
    assert document["recorded"]["monthly"] == document["simulated"]["monthly"] == 0.0


def test_waits_are_summed_up_by_median_longest_and_how_many_were_long() -> None:
    names = ("a", "b", "c", "d")
    arrived = dict.fromkeys((*names, "never"), START)
    waits = dict(zip(names, map(seconds, (10, 30, 120, 121)), strict=True))
    document = compared({"arrived": arrived, "waits": waits})
    assert document["recorded"]["waits"] == {
        "pods": 4,
        "p50": 120.0,
        "max": 121.0,
        "long": 1,
        "withoutPlace": ["never"],
    }
    assert seconds(120) == LONG_WAIT


@pytest.mark.parametrize(
    ("boot", "placed", "waited"),
    [
        (None, Placement(at(1), is_on_new_node=False), 60.0),
        (None, Placement(at(1), is_on_new_node=True), 60.0 + BOOT.total_seconds()),
        (seconds(40), Placement(at(1), is_on_new_node=True), 100.0),
        (None, Placement(at(-1), is_on_new_node=False), 0.0),
        (seconds(40), Placement(at(-1), is_on_new_node=True), 40.0),
        (None, None, 0.0),
    ],
)
def test_a_pod_waits_with_us_until_its_place_and_for_the_boot_of_a_new_node(
    boot: timedelta | None, placed: Placement | None, waited: float
) -> None:
    placements = {} if placed is None else {"a/p": placed}
    document = compared({"arrived": {"a/p": START}, "boot": boot}, placements=placements)
    assert document["simulated"]["waits"]["max"] == waited
    assert document["bootSeconds"] == (boot or BOOT).total_seconds()
    assert [boot is None] == [
        "none of the period shows" in line for line in document["assumptions"] if "takes " in line
    ][:1]


def test_a_pod_without_a_place_does_not_count_as_one_that_waited() -> None:
    waits = compared({"arrived": {"a/p": START}}, unplaced=("b/q", "a/p"))["simulated"]["waits"]
    assert (waits["pods"], waits["withoutPlace"]) == (0, ["a/p", "b/q"])


def test_equal_fleets_are_nowhere_worse() -> None:
    pods = {"arrived": {"a/p": START, "a/q": START}, "waits": {"a/p": seconds(60)}, "series": ((START, 5),)}
    same = {"cost": RECORDED.cost, "moves": RECORDED.evicted, "unplaced": ("a/q",), "series": ((START, 5),)}
    assert worse(compared(pods, placements={"a/p": Placement(at(1), is_on_new_node=False)}, **same)) == []


def test_more_dollars_and_evictions_are_worse() -> None:
    assert worse(compared(cost=1010 * DOLLAR, moves=1006)) == [
        ("dollars", "it cost more dollars: 1,010.0 instead of 10.0", []),
        ("evictions", "evictions: 1,006 instead of 5", []),
    ]


def test_longer_waits_are_worse_and_pods_that_waited_long_only_with_us_are_named() -> None:
    arrived = dict.fromkeys(("a/early", "a/late", "a/both", "a/theirs"), START)
    waits = {"a/early": seconds(10), "a/late": seconds(120), "a/both": seconds(130), "a/theirs": seconds(125)}
    ours = {"a/early": 2.0, "a/late": 3.0, "a/both": 4.0, "a/theirs": 2.0}
    placements = {pod: Placement(at(minutes), is_on_new_node=False) for pod, minutes in ours.items()}
    assert worse(compared({"arrived": arrived, "waits": waits}, placements=placements)) == [
        ("waits", "the median wait: 180 s instead of 125 s", []),
        ("waits", "the longest wait: 240 s instead of 130 s", []),
        ("waits", "1 pod waited more than 2 minutes only with us", ["a/late"]),
    ]


def test_pods_without_a_place_only_with_us_are_counted_and_the_first_ones_named() -> None:
    pods = [f"a/{number:02}" for number in range(NAMED_MAX + 1)]
    arrived = dict.fromkeys(("a/theirs", *pods), START)
    document = compared(
        {"arrived": arrived, "waits": {pod: seconds(1) for pod in pods}}, unplaced=("a/theirs", *reversed(pods))
    )
    assert worse(document) == [("withoutPlace", "21 pods had no place only with us", pods[:NAMED_MAX])]


def test_hours_in_which_our_fleet_cost_more_are_counted_to_the_end_of_the_period() -> None:
    theirs = ((START, 5), (at(30), 2), (at(90), 4))
    ours = ((START, 5), (at(60), 4), (at(180), 9))
    document = compared({"series": theirs}, series=ours)
    assert worse(document) == [("hoursOfHigherCost", "our fleet cost more for 1.00 h", [])]
    assert worse(compared({"series": ((at(90), 1),)}, series=((at(60), 4),))) == [
        ("hoursOfHigherCost", "our fleet cost more for 1.00 h", [])
    ]


def test_rules_that_would_have_been_violated_are_listed() -> None:
    document = compared(broken=(BrokenRule(at(1), "budget", "general"), BrokenRule(at(2), "doNotDisrupt", "a/p")))
    assert document["violations"][0] == {"time": "2026-11-20T00:01:00Z", "rule": "budget", "subject": "general"}
    assert worse(document) == [("violations", "2 rules would have been violated", [])]
