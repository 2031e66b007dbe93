"""The comparison counts both fleets alike, and names everything in which ours would have been worse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from cli.answers.periods import (
    ASSUMPTIONS,
    BOOT,
    LONG_WAIT,
    NAMED_MAX,
    OBJECTS_SHOWN,
    BaselineSimulation,
    minutes,
    pace,
    pace_warnings,
    report_document,
    shadow_document,
    what_if_document,
    what_if_markdown,
    what_if_table,
)
from cli.answers.plan import API_VERSION
from core.api.objects import JsonObject
from core.cost_report import CostReport, IdleCause
from core.counterfactual.overrides import ProvenMinimum
from core.counterfactual.simulated_fleet import Placement, RecordedFleetResult
from core.counterfactual.simulation import TICK, BrokenRule, RecordedPeriod, SimulatedPeriod, tick_of
from core.ledger.entry import LogEntry
from core.model.node_pool import NodePool
from tests.builders import a_pool

# How often a simulation lets nodes go, and what it therefore cannot show.


DAY, MONTH = timedelta(days=1) / 2, timedelta(days=30)


def pool(name: str, wait: timedelta | None) -> NodePool:
    made = a_pool(name)
    return msgspec.structs.replace(made, disruption=msgspec.structs.replace(made.disruption, consolidate_after=wait))


def test_the_pace_is_an_assumption_of_the_answer() -> None:
    assert pace(DAY) == f"nodes are let go every {minutes(TICK)} at most"
    assert tick_of(MONTH) > TICK
    assert pace(MONTH) == (
        f"nodes are let go every {minutes(tick_of(MONTH))} at most; every {minutes(TICK)} at most where they have no pods, "
        "are left for a later wave, or a budget changes"
    )


def test_a_wait_that_ends_between_two_decisions_is_told() -> None:
    short = TICK - timedelta(seconds=1)
    (told,) = pace_warnings([pool("a", short)], [], DAY)
    assert told == (
        f"NodePool a: consolidateAfter of {short // timedelta(seconds=1)} s is shorter than the {minutes(TICK)} between two "
        "decisions, so the simulation shows less of its effect"
    )
    (told,) = pace_warnings([pool("a", TICK)], [pool("a", timedelta(0))], MONTH)
    assert told.endswith("shows less of its effect; a period of less than 21 hours has more decisions")


def test_nothing_is_said_of_a_wait_that_is_long_off_or_not_changed() -> None:
    short = TICK - timedelta(seconds=1)
    assert pace_warnings([pool("a", TICK), pool("b", None), pool("c", short)], [pool("c", short)], DAY) == []


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "1 minute"), (29, "1 minute"), (89, "1 minute"), (91, "2 minutes"), (600, "10 minutes")]
)
def test_minutes_are_rounded_and_never_none(seconds: int, words: str) -> None:
    assert minutes(timedelta(seconds=seconds)) == words


# A period's cost as data, text, Markdown, HTML and CSV: every form has the same figures.


START = datetime(2026, 11, 20, tzinfo=UTC)
DOLLAR = 1_000_000_000
WEEK = timedelta(days=7)
REPORT = CostReport(
    cost=10 * DOLLAR,
    hours=4.0,
    instances=2,
    by={"namespace": {"shop": 7 * DOLLAR, "(idle)": 3 * DOLLAR}, "nodepool": {"general": 10 * DOLLAR}},
    covered=None,
    on_demand=None,
    idle=3 * DOLLAR,
    causes=(),
    minimum=None,
)


def decided(
    function: str = "disrupt", *, moves: int = 0, hourly: int = 0, objects: tuple[str, ...] = ("Node/a",)
) -> LogEntry:
    return LogEntry(
        id="1",
        time=START,
        function=function,
        what="remove a",
        reason="Empty",
        objects=objects,
        moves=moves,
        hourly=hourly,
        state="done",
    )


def reported(
    *log: LogEntry, baseline: BaselineSimulation | None = None, by: tuple[str, ...] = ("namespace",), **changes: Any
) -> JsonObject:
    period = (START, START + timedelta(hours=2))
    return report_document(msgspec.structs.replace(REPORT, **changes), log, baseline, period=period, by=by)


def test_what_is_not_known_is_null() -> None:
    assert reported() == {
        "apiVersion": API_VERSION,
        "kind": "Report",
        "from": "2026-11-20T00:00:00Z",
        "to": "2026-11-20T02:00:00Z",
        "dollars": 10.0,
        "instanceHours": 4.0,
        "instances": 2,
        "covered": None,
        "baselines": {"onDemand": None, "withoutConsolidation": None},
        "provenMinimum": None,
        "consolidation": {"commands": 0, "podsMoved": 0, "hourlySaved": 0.0, "hourlySavedPerMove": None},
        "by": {"namespace": {"shop": 7.0, "(idle)": 3.0}},
        "idle": {"dollars": 3.0, "causes": []},
        "assumptions": list(ASSUMPTIONS),
    }


def test_what_is_known_is_in_dollars_and_the_tables_are_those_asked_for() -> None:
    minimum = ProvenMinimum(cost=4 * DOLLAR, spent=8 * DOLLAR, over=timedelta(minutes=90))
    document = reported(on_demand=25 * DOLLAR, covered=2 * DOLLAR, minimum=minimum, by=("nodepool", "namespace"))
    assert document["baselines"]["onDemand"] == 25.0
    assert document["covered"] == 2.0
    assert document["provenMinimum"] == {"dollars": 4.0, "spentMeanwhile": 8.0, "hours": 1.5}
    assert list(document["by"]) == ["nodepool", "namespace"]


@pytest.mark.parametrize(
    ("covered", "baseline", "kept"),
    [
        (None, BaselineSimulation(4, 6, WEEK), 15.0),
        (2 * DOLLAR, BaselineSimulation(4, 6, WEEK), 14.0),
        (0, BaselineSimulation(4, 4, WEEK), 10.0),
        (None, BaselineSimulation(0, 6, WEEK), None),
        (None, None, None),
    ],
)
def test_without_consolidation_what_no_commitment_covers_grows_as_the_simulations_do(
    covered: int | None, baseline: BaselineSimulation | None, kept: float | None
) -> None:
    assert reported(covered=covered, baseline=baseline)["baselines"]["withoutConsolidation"] == kept


def test_commands_that_moved_or_changed_the_bill_count_as_consolidation() -> None:
    cent = DOLLAR // 100
    document = reported(
        decided(moves=3, hourly=-30 * cent),
        decided(moves=1),
        decided(hourly=10 * cent),
        decided(),
        decided(moves=9, hourly=-90 * cent, objects=()),
        decided("provision", moves=9, hourly=90 * cent),
    )
    assert document["consolidation"] == {
        "commands": 3,
        "podsMoved": 4,
        "hourlySaved": 0.2,
        "hourlySavedPerMove": 0.05,
    }


def test_idle_dollars_are_summed_by_reason_the_highest_first_and_at_equal_sums_by_name() -> None:
    causes = [
        *((IdleCause("Budget", f"pool {number}"), DOLLAR) for number in range(OBJECTS_SHOWN + 1)),
        (IdleCause("DoNotDisrupt", "pod a"), 9 * DOLLAR),
        (IdleCause("Nominated", "free"), 0),
        (IdleCause("AlsoSix", "b"), 6 * DOLLAR),
    ]
    found = reported(causes=tuple(causes))["idle"]["causes"]
    assert [(cause["reason"], cause["dollars"]) for cause in found] == [
        ("DoNotDisrupt", 9.0),
        ("AlsoSix", 6.0),
        ("Budget", 6.0),
    ]
    assert found[2]["objects"] == [{"message": f"pool {number}", "dollars": 1.0} for number in range(OBJECTS_SHOWN)]


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


PERIOD = RecordedPeriod(since=START, until=at(120), snapshots=3, cost=10 * DOLLAR)
SHADOW_DOCUMENT_RECORDED = RecordedFleetResult(
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
    theirs = msgspec.structs.replace(SHADOW_DOCUMENT_RECORDED, **(recorded or {}))
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
    assert said in shadow_document(period, SHADOW_DOCUMENT_RECORDED, SIMULATED)["assumptions"][-1]


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


def test_equal_fleets_are_nowhere_worse() -> None:
    pods = {"arrived": {"a/p": START, "a/q": START}, "waits": {"a/p": seconds(60)}, "series": ((START, 5),)}
    same = {
        "cost": SHADOW_DOCUMENT_RECORDED.cost,
        "moves": SHADOW_DOCUMENT_RECORDED.evicted,
        "unplaced": ("a/q",),
        "series": ((START, 5),),
    }
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


# A recorded period beside its alternative: figures of both, their difference, and how far the simulation is off.


AT = datetime(2026, 11, 20, tzinfo=UTC)
RECORDED = RecordedPeriod(since=AT, until=AT + timedelta(hours=2), snapshots=2, cost=100 * DOLLAR)
THEN = SimulatedPeriod(
    cost=100 * DOLLAR,
    by_pool={"general": 100 * DOLLAR},
    hours=3.0,
    launched=2,
    moves=4,
    waited=5,
    unplaced=("a/both", "a/gained"),
    nodes=2,
    commands={"Empty": 1},
    series=(),
)


def simulated(**changes: Any) -> SimulatedPeriod:
    return msgspec.structs.replace(THEN, **changes)


NOW = simulated(cost=90 * DOLLAR, hours=2.5, launched=1, moves=6, waited=5, unplaced=("a/both", "a/lost"), nodes=1)


def told(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(("cost", "says"), [(50, "50.0% less"), (150, "50.0% more"), (100, "0.0% less")])
def test_the_simulation_is_compared_with_what_was_spent(cost: int, says: str) -> None:
    """Half of $100 is 50 % less; that $100 are twice as much is another figure."""
    text = what_if_table(what_if_document(RECORDED, simulated(cost=cost * DOLLAR), simulated(cost=cost * DOLLAR)))
    assert f"$100.0000 were spent; simulated: {says}" in told(text)


def test_the_document_has_both_sides_and_the_second_less_the_first() -> None:
    document = what_if_document(RECORDED, THEN, NOW)
    assert (document["from"], document["to"], document["snapshots"]) == (
        "2026-11-20T00:00:00Z",
        "2026-11-20T02:00:00Z",
        2,
    )
    assert document["before"] == {
        "dollars": 100.0,
        "monthly": 36500.0,
        "nodeHours": 3.0,
        "nodesLaunched": 2,
        "moves": 4,
        "podsOnNewNodes": 5,
        "unplaced": ["a/both", "a/gained"],
        "nodesAtEnd": 2,
        "commands": {"Empty": 1},
        "byNodePool": {"general": 100.0},
    }
    assert document["difference"] == {
        "dollars": -10.0,
        "monthly": -3650.0,
        "share": -0.1,
        "moves": 2,
        "podsLost": ["a/lost"],
        "podsGained": ["a/gained"],
    }


ROWS = [
    ("dollars", "100.0000", "90.0000", "-10.0000 (-10.0%)"),
    ("a month", "36,500.00", "32,850.00", "-3,650.00"),
    ("node hours", "3.00", "2.50", "-0.50"),
    ("nodes launched", "2", "1", "-1"),
    ("pods moved", "4", "6", "+2"),
    ("pods that waited for a new node", "5", "5", "+0"),
    ("nodes at the end", "2", "1", "-1"),
]
HEAD = "2026-11-20 00:00 to 2026-11-20 02:00 UTC, 2 snapshots: $100.0000 were spent; simulated: 0.0% less"


def test_text_and_markdown_have_the_same_rows() -> None:
    document = what_if_document(RECORDED, THEN, NOW)
    text, markdown = what_if_table(document), what_if_markdown(document)
    lines = [told(line) for line in text.splitlines()]
    assert told(text).startswith(HEAD)
    assert HEAD in markdown
    for row in ROWS:
        assert " ".join(row) in lines
        assert f"| {' | '.join(row)} |" in markdown
    assert "without a place now: a/lost" in lines
    assert "with a place now: a/gained" in lines
    assert all(f"- {assumed}" in markdown and assumed in told(text) for assumed in document["assumptions"])


def test_of_many_pods_five_are_named_and_without_any_there_is_no_line() -> None:
    pods = tuple(f"a/{number}" for number in range(7))
    text = what_if_table(what_if_document(RECORDED, simulated(unplaced=()), simulated(unplaced=pods)))
    assert "without a place now: a/0, a/1, a/2, a/3, a/4 +2" in text
    assert "with a place now" not in text
    assert "without a place now" not in what_if_table(what_if_document(RECORDED, simulated(), simulated(unplaced=())))
