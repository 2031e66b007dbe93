"""What counts as a kill: a test that fails with the mutant, because of the mutant, and not because of anything else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.mutation import __main__, cold, coverage_map, fates
from tests.mutation.areas import ROOT, Place
from tests.mutation.coverage_map import CoverageMap
from tests.mutation.fates import Fate, fates_of
from tests.mutation.forks import KILLED, SURVIVED, Ended, forked
from tests.mutation.mutants import Mutant
from tests.mutation.session import Answer, Asked, Limits
from tests.mutation.warm import Warm

MUTANT = Mutant("core/launch/selection.py", 1, 0, 0, "a", "b")
PLACE = Place("f", 1, 1, 1, ())
OWN_TESTS = f"tests/mutation/cases_for_kills_{os.getpid()}.py"
"""Written for the time of a test; several processes may run these. All tests of this folder are slow, and none is asked."""


def warm_killer(
    monkeypatch: pytest.MonkeyPatch, tests: Sequence[str], fails: Callable[[str, list[str], bool], int]
) -> str:
    """The killer that a warm session finds where `fails` says how a test ends after others, with the mutant or without."""
    warm = object.__new__(Warm)
    warm._items = dict.fromkeys(tests)  # type: ignore[arg-type]
    warm._passes_alone = {}
    warm._functions = {}
    monkeypatch.setattr("tests.mutation.warm.apply_to_functions", lambda *_: broken.append(True))
    broken: list[bool] = []

    def play(asked: Sequence[str], prepare: Callable[[], None]) -> Ended:
        broken.clear()
        prepare()
        said = ""
        for number, test in enumerate(asked):
            said += f"{test}\n"
            status = fails(test, list(asked[:number]), bool(broken))
            if status:
                return Ended(status, said, 0.0)
        return Ended(0, said, 0.0)

    monkeypatch.setattr(warm, "_play", play)
    return warm.killer_of(MUTANT, PLACE, tests)


def test_a_test_that_fails_with_the_mutant_alone_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    assert warm_killer(monkeypatch, ["a", "b"], lambda test, _, is_broken: int(test == "b" and is_broken)) == "b"


def test_a_test_that_depends_on_the_order_kills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails after another one whatever the code, and passes alone; the test after it is asked."""

    def fails(test: str, before: list[str], is_broken: bool) -> int:
        return int((test == "b" and "a" in before) or (test == "c" and is_broken))

    assert warm_killer(monkeypatch, ["a", "b"], fails) == ""
    assert warm_killer(monkeypatch, ["a", "b", "c"], fails) == "c"


def test_a_mutant_that_shows_after_another_test_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(test: str, before: list[str], is_broken: bool) -> int:
        return int(test == "b" and "a" in before and is_broken)

    assert warm_killer(monkeypatch, ["a", "b"], fails) == "b"


@pytest.mark.parametrize(("times", "killer"), [(1, ""), (9, "a (ended twice by the clock or a crash: -9)")])
def test_a_crash_is_asked_twice(monkeypatch: pytest.MonkeyPatch, times: int, killer: str) -> None:
    left = [times]

    def fails(_: str, __: list[str], is_broken: bool) -> int:
        left[0] -= is_broken
        return -signal.SIGKILL if is_broken and left[0] >= 0 else 0

    assert warm_killer(monkeypatch, ["a"], fails) == killer


def cold_killer(monkeypatch: pytest.MonkeyPatch, text: str, tests: Sequence[str], breaks: Callable[[], None]) -> str:
    """The killer among tests of this text, where `breaks` stands for the mutant."""
    file = ROOT / OWN_TESTS
    monkeypatch.setattr(cold, "apply_at_import", lambda _: breaks())
    cold._without_mutant.cache_clear()
    file.write_text(text)
    try:
        return cold.killer_of(MUTANT, [f"{OWN_TESTS}::{test}" for test in tests])
    finally:
        file.unlink()


TESTS = """
import os

def test_fails_always():
    assert False

def test_fails_after_others():
    assert "RAN" not in os.environ
    os.environ["RAN"] = "1"

def test_again():
    assert "RAN" not in os.environ

def test_of_the_mutant():
    assert "BROKEN" not in os.environ

def test_crashes():
    if "BROKEN" in os.environ:
        os.kill(os.getpid(), 9)
"""


def breaks() -> None:
    os.environ["BROKEN"] = "1"


@pytest.mark.parametrize(
    ("tests", "killer"),
    [
        (["test_fails_always"], ""),
        (["test_fails_after_others", "test_again"], ""),
        (["test_that_is_gone"], ""),
        (["test_fails_always", "test_that_is_gone", "test_of_the_mutant"], f"{OWN_TESTS}::test_of_the_mutant"),
        (["test_crashes"], f"a crash or the clock, twice: -9 in {OWN_TESTS}::test_crashes"),
    ],
    ids=["fails-always", "fails-after-others", "is-gone", "of-the-mutant", "crashes"],  # the same in all processes
)
def test_an_import_is_killed_by_what_passes_without(
    monkeypatch: pytest.MonkeyPatch, tests: list[str], killer: str
) -> None:
    assert cold_killer(monkeypatch, TESTS, tests, breaks) == killer


@pytest.mark.parametrize(
    ("text", "killer"),
    [
        ('import os\nassert "BROKEN" not in os.environ\ndef test_a(): pass\n', f"the import of {OWN_TESTS}"),
        ("raise ValueError\ndef test_a(): pass\n", ""),
    ],
    ids=["with-the-mutant-alone", "in-any-case"],
)
def test_a_module_that_cannot_be_imported_kills_if_it_can_without(
    monkeypatch: pytest.MonkeyPatch, text: str, killer: str
) -> None:
    assert cold_killer(monkeypatch, text, ["test_a"], breaks) == killer


def test_a_defect_of_the_tool_kills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot() -> None:
        raise ValueError("a defect")

    with pytest.raises(RuntimeError, match="ValueError: a defect"):
        cold_killer(monkeypatch, TESTS, ["test_of_the_mutant"], cannot)


def test_tests_that_fail_without_a_mutant_are_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The next run, which does not measure them again, names and leaves them out, too."""
    monkeypatch.setattr(coverage_map, "FILE", tmp_path / "lines.json")
    own = "tests/unit/mutation/test_kills.py"
    bad, good = f"{own}::bad", f"{own}::good"
    known = coverage_map.kept_map()
    known.note({bad: coverage_map.TestRun(0.0, {}, fails=True), good: coverage_map.TestRun(0.0, {}, fails=False)}, {})
    known.save()
    again = coverage_map.kept_map()
    assert again.unknown([bad, good]) == []
    assert again.failing([bad, good]) == [bad]
    assert __main__.failing_without([], [lambda _: ["tests/unit/mutation"]]) == [bad]
    assert __main__.failing_without([], [lambda _: ["tests/unit/launch"]]) == []


def test_a_test_of_a_file_that_changed_fails_no_longer() -> None:
    own = "tests/unit/mutation/test_kills.py"
    assert (
        CoverageMap(
            files={own: coverage_map.TestFile("of before", {f"{own}::a": coverage_map.TestRun(0.0, {}, fails=True)})}
        ).names()
        == []
    )


# A mutant is asked in rounds: each costs only what the one before left alive, and none is lost between them.


MUTANTS = [Mutant("core/model/m.py", line, 0, 0, "a", "b") for line in range(4)]
KILLERS = {(0, "own"): "own::x", (1, "rest"): "rest::x", (2, "whole"): "whole::x"}
"""(line of the mutant, suite) → what kills it."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], Asked]]:
    """Which lines each round was asked of, in place of the session that would ask."""
    rounds: list[tuple[list[int], Asked]] = []

    def one_round(living: Sequence[Fate], asked: Asked, processes: int) -> Iterator[tuple[Fate, Answer]]:
        assert processes == 2
        rounds.append(([fate.mutant.line for fate in living], asked))
        for number, fate in reversed(list(enumerate(living))):
            killer = KILLERS.get((fate.mutant.line, asked.suites[0]), "")
            yield fate, Answer(number, killer, asked=10, left_out=fate.mutant.line)

    monkeypatch.setattr(fates, "_round", one_round)
    monkeypatch.setattr(fates, "import_libraries", lambda: None)
    return rounds


def test_each_round_is_asked_of_what_lives(asked: list[tuple[list[int], Asked]]) -> None:
    limits = Limits(tests=3)
    found = {
        fate.mutant.line: fate
        for fate in fates_of(MUTANTS, [lambda _, n=n: [n] for n in ("own", "whole", "rest")], 2, limits)
    }
    assert [lines for lines, _ in asked] == [[0, 1, 2, 3], [1, 2, 3], [1, 3]]
    assert [(one.suites, one.before) for _, one in asked] == [
        (("own",), ()),
        (("whole",), ("own",)),
        (("rest",), ("own", "whole")),
    ]
    assert {one.limits for _, one in asked} == {limits}
    assert {line: fate.killer for line, fate in found.items()} == {0: "own::x", 1: "rest::x", 2: "whole::x", 3: ""}
    assert {line: (fate.asked, fate.left_out) for line, fate in found.items()} == {
        0: (10, 0),
        1: (30, 3),
        2: (20, 4),
        3: (30, 9),
    }


def test_the_tests_of_a_mutant_end_at_the_limits() -> None:
    """What is left out can only leave a mutant alive."""
    runs = {f"t.py::{n}": coverage_map.TestRun(seconds, {}, fails=False) for n, seconds in enumerate((1.0, 2.0, 3.0))}
    known, tests = coverage_map.CoverageMap(files={"t.py": coverage_map.TestFile("", runs)}), list(runs)
    assert Limits().within(tests, known) == tests
    assert Limits(tests=2).within(tests, known) == tests[:2]
    assert Limits(seconds=3.0).within(tests, known) == tests[:2]
    assert Limits(seconds=2.9).within(tests, known) == tests[:1]
    assert Limits(seconds=0.5).within(tests, known) == []


# Children that play mutants: what they say, and what ends those that hang.


LONG = 60.0
Say = Callable[[str], None]


def test_a_child_says_how_it_ended() -> None:
    def body(say: Say) -> int:
        say("killed by a test")
        return KILLED

    ended = forked(body, LONG)
    assert (ended.status, ended.said) == (KILLED, "killed by a test")


def test_a_child_that_raises_says_where() -> None:
    def body(_: Say) -> int:
        raise ValueError("a defect")

    ended = forked(body, LONG)
    assert ended.status not in (SURVIVED, KILLED)
    assert "ValueError: a defect" in ended.said


def test_a_child_that_sleeps_is_ended_unless_it_is_allowed_to() -> None:
    """A mutant may wait for ever; tests without a mutant may wait for a process of their own on a busy machine."""

    def body(say: Say) -> int:
        time.sleep(3)
        say("awake")
        return SURVIVED

    assert forked(body, LONG, idle_max=1).status == -signal.SIGKILL
    assert forked(body, LONG, idle_max=LONG).said == "awake"


def test_a_child_ends_when_its_time_is_over() -> None:
    def body(_: Say) -> int:
        time.sleep(LONG)
        return SURVIVED

    assert forked(body, 1.0, idle_max=LONG).status == -signal.SIGKILL
