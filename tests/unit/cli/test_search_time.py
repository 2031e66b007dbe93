"""How long the search for cheaper nodes may take: by the processor's time, or four times as long by the clock."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

import pytest

from cli import arguments
from cli.__main__ import main
from cli.answers.plan import plan_table
from cli.arguments import TimeLimit, share_of_time, time_limit_line, timing
from cli.terminal import style
from cli.terminal.output import SITE_VARIABLE, on_site, reason_page
from cli.terminal.style import progress, progress_held
from core.reasons.code import PAGE
from core.reasons.pods import PodReason

# What an answer says beside itself: what stopped the search, where a code is explained, how far long work is.


ROOT: Final = Path(__file__).parents[3]
SITE: Final = "https://docs.example.com/fleetwright"


class Clock:
    """Wall clock and processor time, set by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked = 0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        self.asked += 1
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(arguments, "time", found)
    return found


def test_processor_time_is_not_read_at_each_step(clock: Clock) -> None:
    time_limit = TimeLimit(1.0)
    shares = []
    for _ in range(1000):
        shares.append(time_limit())
        clock.now += 0.0015
    assert clock.asked < 120
    assert shares == sorted(shares)
    assert all(abs(share - 0.0015 * step) < 0.03 for step, share in enumerate(shares))
    assert time_limit.stopped_by == "time"


def test_a_search_that_was_given_no_time_was_not_stopped_by_the_clock(clock: Clock) -> None:
    time_limit = TimeLimit(0.0)
    assert time_limit() >= 1
    assert time_limit.stopped_by == "iterations"
    assert clock.asked == 1


def test_a_table_says_that_the_clock_stopped_the_search_and_what_to_do() -> None:
    document: dict[str, Any] = {
        "nodeClaims": [],
        "bindings": [],
        "unschedulable": [],
        "cost": {"hourly": 0.0, "lowerBound": None, "gap": None},
    }
    told = plan_table(document | {"timing": {"stoppedBy": "time"}})
    assert "--time-budget" in told
    assert "--improve-iterations" in told
    assert time_limit_line("iterations") == time_limit_line(None) == ""


def test_every_answer_of_a_search_says_what_stopped_it(
    cluster: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TimeLimit, "stopped_by", "time")
    for command in ("plan", "consolidate"):
        main([command, *cluster, "-o", "json"])
        assert json.loads(capsys.readouterr().out)["timing"]["stoppedBy"] == "time"
        main([command, *cluster])
        assert "the clock stopped the search" in capsys.readouterr().out, command
    main(["explain", "shop/cart-0", *cluster])
    assert "the clock stopped the search" in capsys.readouterr().err


def test_the_spot_share_is_what_is_launched_on_spot() -> None:
    """Of a dollar for a node that may be spot and one for a node that may not, half."""
    claim = {"nodePool": "a", "instanceTypes": ["m.s"], "zones": ["z1"], "price": 0.1, "name": "a-0", "pods": ["p"]}
    claims = [{**claim, "capacityTypes": types} for types in (["on-demand"], ["on-demand", "spot"])]
    cost = {"hourly": 0.2, "lowerBound": None, "gap": None, "spotHourly": 0.1}
    told = plan_table({"nodeClaims": claims, "bindings": [], "unschedulable": [], "cost": cost})
    assert "$0.2000 an hour, $146 a month, 50% of it spot" in told


def test_a_code_has_a_page_in_the_repository_or_on_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SITE_VARIABLE, raising=False)
    path, _, anchor = reason_page(PodReason.LIMIT_REACHED).partition("#")
    assert f'<a id="{anchor}"></a>`LimitReached`' in (ROOT / path).read_text(encoding="utf-8")
    monkeypatch.setenv(SITE_VARIABLE, SITE + "/")
    assert reason_page(PodReason.LIMIT_REACHED) == f"{SITE}/reference/reason-codes/#limitreached"
    assert on_site(f"more: {PAGE}#limitreached") == f"more: {SITE}/reference/reason-codes/#limitreached"


def test_a_table_names_the_page_of_each_code(
    cluster: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["plan", *cluster])
    told = capsys.readouterr().out
    code = re.findall(r"no place for shop/huge \[(\w+)\]", told)[0]
    assert f"about {code}: fleetwright explain {code}" in told
    monkeypatch.setenv(SITE_VARIABLE, SITE)
    main(["plan", *cluster])
    assert f"about {code}: {SITE}/reference/reason-codes/#{code.lower()}" in capsys.readouterr().out
    main(["plan", *cluster, "-o", "json"])
    (lost,) = json.loads(capsys.readouterr().out)["unschedulable"]
    assert lost["page"] == f"{SITE}/reference/reason-codes/#{code.lower()}"


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard error as a terminal, on which progress is written at once and every millisecond."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(style, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(style, "_TICK_SECONDS", 0.001)
    return terminal


def test_long_work_says_how_much_of_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, shown = a_terminal(monkeypatch), threading.Event()
    with progress("deciding again", 3) as steps:
        for number in steps.over(range(3)):
            deadline = time.monotonic() + 10
            while f"deciding again: {number} of 3, " not in terminal.getvalue() and time.monotonic() < deadline:
                shown.wait(0.001)
    assert steps.done == 3
    assert all(f"deciding again: {number} of 3, 0 s" in terminal.getvalue() for number in range(3))


def test_no_progress_is_written_while_another_program_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins each line at its start, and would clear the question."""
    terminal, waited = a_terminal(monkeypatch), threading.Event()
    with progress("reading"):
        with progress_held():
            before = terminal.getvalue()
            waited.wait(0.05)
            assert terminal.getvalue() == before
        deadline = time.monotonic() + 10
        while "reading: " not in terminal.getvalue()[len(before) :] and time.monotonic() < deadline:
            waited.wait(0.001)
    assert "reading: " in terminal.getvalue()[len(before) :]


class Clocks:
    """A processor's time and the clock, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.worked, self.passed, self.readings = 100.0, 5000.0, 0
        monkeypatch.setattr(time, "process_time", self._read)
        monkeypatch.setattr(time, "monotonic", lambda: self.passed)

    def _read(self) -> float:
        self.readings += 1
        return self.worked

    def go_on(self, worked: float, passed: float) -> None:
        self.worked += worked
        self.passed += passed


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_time_counts_from_the_first_question(clocks: Clocks) -> None:
    """Reading the cluster takes no time from the search."""
    limit = TimeLimit(2.0)
    clocks.go_on(60, 60)
    assert limit() == 0
    clocks.go_on(0.5, 0.5)
    assert limit() == 0.25
    clocks.go_on(1.0, 1.0)
    assert limit() == 0.75
    assert (limit.was_over, limit.stopped_by) == (False, "iterations")
    clocks.go_on(0.5, 0.5)
    assert limit() == 1.0
    assert (limit.was_over, limit.stopped_by) == (True, "time")


def test_on_a_busy_machine_a_search_ends_after_four_times_as_long(clocks: Clocks) -> None:
    limit = TimeLimit(1.0)
    limit()
    clocks.go_on(0.1, 2.0)
    assert limit() == 0.5
    clocks.go_on(0.1, 2.0)
    assert limit() == 1.0


def test_a_measurement_is_used_for_a_fiftieth_of_a_second(clocks: Clocks) -> None:
    limit = TimeLimit(1.0)
    limit()
    clocks.go_on(0.5, 0.0195)
    assert (limit(), clocks.readings) == (0, 1)
    clocks.go_on(0, 0.0006)
    assert (limit(), clocks.readings) == (0.5, 2)


def test_once_time_was_over_the_plan_depends_on_the_machine(clocks: Clocks) -> None:
    limit = TimeLimit(1.0)
    limit()
    clocks.go_on(1.5, 1.5)
    limit()
    clocks.go_on(-1.0, 1.0)
    limit()
    assert limit.stopped_by == "time"


def test_without_any_time_the_first_plan_is_taken_everywhere(clocks: Clocks) -> None:
    """A budget of zero gives the same answer on each machine, so nothing is said of the clock."""
    limit = TimeLimit(0.0)
    assert limit() == 1.0
    assert (limit.was_over, limit.stopped_by) == (True, "iterations")


def test_steps_bound_the_search_without_a_clock() -> None:
    assert share_of_time(Namespace(improve_iterations=0, time_budget=1.0)) is None
    limit = share_of_time(Namespace(improve_iterations=None, time_budget=0.0))
    assert limit is not None
    assert limit() == 1.0


def test_durations_are_shown_only_where_the_clock_counts(clocks: Clocks) -> None:
    assert timing(0.123456, 1.98762, None) == {"decodeSeconds": None, "solveSeconds": None}
    assert timing(0.123456, 1.98762, TimeLimit(1.0)) == {
        "decodeSeconds": 0.1235,
        "solveSeconds": 1.9876,
        "stoppedBy": "iterations",
    }


def test_a_search_that_the_clock_stopped_says_how_to_repeat_it() -> None:
    told = " ".join(time_limit_line(arguments.TIME).split())
    assert told == (
        "the clock stopped the search for cheaper nodes, so another run may answer otherwise: a larger --time-budget lets it "
        "go on, --improve-iterations N gives the same answer everywhere"
    )
    assert time_limit_line("iterations") == time_limit_line(None) == ""
