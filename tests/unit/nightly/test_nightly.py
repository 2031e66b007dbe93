"""The night run must not report failures as successes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import nightly
from tests.conformance import DECIDED, verdict
from tests.figures import DOCS, NIGHT, proven
from tests.nightly import STEPS, Step, chosen_sizes, chosen_steps, run
from tests.replay import PARTS, in_parts, is_held, summarised

TARGETS = {line.split(":")[0] for line in (nightly.ROOT / "Makefile").read_text().splitlines() if ":" in line}


@pytest.fixture
def makefile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two targets, one of which fails after it has written its figures."""
    monkeypatch.setattr(nightly, "ROOT", tmp_path)
    (tmp_path / "Makefile").write_text("good:\n\t@echo $(N) cases\nbad:\n\t@echo '{\"found\": 1}' > bad.json; exit 3\n")
    return tmp_path


def test_every_step_is_a_target_of_the_makefile() -> None:
    assert {step.target.split()[0] for step in STEPS} <= TARGETS


def test_a_night_continues_after_a_failure_and_reports_it(makefile: Path) -> None:
    steps = (Step("first", "bad", "bad.json"), Step("second", "good N={CASES}"))
    assert run(steps, {"CASES": "7"}, makefile / "night.json") == 1
    found = json.loads((makefile / "night.json").read_text())["steps"]
    assert (found["first"]["exitCode"], found["first"]["figures"]) == (2, {"found": 1})
    assert (found["second"]["exitCode"], found["second"]["lastLines"]) == (0, ["7 cases"])


def test_the_seeds_that_fail_are_kept(makefile: Path) -> None:
    """They gave their worlds again for nobody: the lines after them took their place."""
    lines = ["seed 7: 1 wrong", *(f"… {number}" for number in range(9)), "seed 8: 2 wrong", "9 worlds"]
    (makefile / "Makefile").write_text("bad:\n" + "".join(f"\t@echo '{line}'\n" for line in lines) + "\t@exit 1\n")
    run((Step("fuzz", "bad"),), {}, makefile / "night.json")
    found = json.loads((makefile / "night.json").read_text())["steps"]["fuzz"]
    assert found["failingSeeds"] == ["seed 7: 1 wrong", "seed 8: 2 wrong"]


def test_figures_of_an_earlier_night_are_not_used(makefile: Path) -> None:
    (makefile / "old.json").write_text("{}")
    run((Step("only", "good", "old.json"),), {}, makefile / "night.json")
    assert json.loads((makefile / "night.json").read_text())["steps"]["only"]["figures"] is None


def test_the_page_shows_how_each_step_ended(makefile: Path) -> None:
    run((Step("first", "bad"), Step("second", "good N=7")), {}, makefile / "night.json")
    page = proven(json.loads((makefile / "night.json").read_text()))
    first, second = (line for line in page.splitlines() if line.startswith(("| first", "| second")))
    assert first.startswith("| first | `make --no-print-directory bad` | 20")
    assert "| with 2 |" in first
    assert second.endswith("| well | 0.0 | 7 cases |")


def test_the_page_shows_what_the_random_worlds_asked(makefile: Path) -> None:
    lines = [
        "seed 8: 1 wrong, first: room",
        "… 500 of 700 in 9 s, 1 failing",
        "700 worlds, 1 failing {'room': 1}, seeds 1 to 700, 12 s",
    ]
    step = {
        "command": "c",
        "startedAt": "",
        "commit": "",
        "exitCode": 1,
        "seconds": 1,
        "lastLines": lines,
        "figures": None,
    }
    page = proven({"machine": {"processors": 2, "python": "3"}, "steps": {"fuzz-disruption": step}})
    assert "was asked in them\n\n- disruption: 700 worlds, 1 failing {'room': 1}, seeds 1 to 700, 12 s\n" in page
    assert "wrong, first" not in page
    assert page.count("## Random worlds") == 1


def test_the_page_shows_which_test_notices_a_named_fault() -> None:
    rows = [
        {"file": "core/a.py", "what": "the sign", "killer": "tests/unit/test_a.py::test_it[3-x]"},
        {"file": "core/b.py", "what": "the unit", "killer": ""},
    ]
    found = {"killed": 1, "mutants": 2, "named": rows}
    step = {
        "command": "c",
        "startedAt": "",
        "commit": "",
        "exitCode": 0,
        "seconds": 1,
        "lastLines": [],
        "figures": found,
    }
    page = proven({"machine": {"processors": 2, "python": "3"}, "steps": {"mutants-named": step}})
    assert "1 of 2 are noticed" in page
    assert "| the sign | `core/a.py` | `unit/test_a.py`: `test_it` |" in page
    assert "| the unit | `core/b.py` | **none** |" in page


def test_a_kept_sample_names_the_code_of_its_commit() -> None:
    """Names were replaced by those of today's folders: the command of the page drew nothing there at that commit."""
    for name, step in json.loads((DOCS / NIGHT).read_text())["steps"].items():
        found = step["figures"] or {}
        for area, score in found.get("areas", {}).items():
            alive = [row for row in found["survivors"] if row["file"].startswith(f"{area}/")]
            assert len(alive) == score["mutants"] - score["killed"], (name, area)


def test_a_step_that_is_run_alone_leaves_the_others_as_they_were(
    makefile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = (Step("first", "good N=1"), Step("second", "good N=7"))
    monkeypatch.setattr(nightly, "STEPS", steps)
    run(steps, {}, makefile / "night.json")
    before = json.loads((makefile / "night.json").read_text())["steps"]
    assert run((Step("second", "bad"),), {}, makefile / "night.json") == 1
    after = json.loads((makefile / "night.json").read_text())["steps"]
    assert after["first"] == before["first"]
    assert (before["second"]["exitCode"], after["second"]["exitCode"]) == (0, 2)


def test_a_night_leaves_the_samples_of_some_areas(makefile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept beside its steps (`--keep`), and would have to be drawn again; a step that has gone is dropped."""
    monkeypatch.setattr(nightly, "STEPS", (Step("first", "good N=1"),))
    kept = {"steps": {"mutants-cli": {"seconds": 7}, "gone": {"seconds": 8}}}
    (makefile / "night.json").write_text(json.dumps(kept))
    run(nightly.STEPS, {}, makefile / "night.json")
    assert json.loads((makefile / "night.json").read_text())["steps"].keys() == {"first", "mutants-cli"}


def test_a_new_file_begins_with_the_figures_of_the_pages(makefile: Path) -> None:
    """The page lost the first sample of faults, which the others are compared with, in the first night of a clone."""
    (makefile / "docs").mkdir()
    (makefile / "docs" / "figures.json").write_text(json.dumps({"steps": {"mutants-first": {"seconds": 7}}}))
    run((Step("second", "good N=7"),), {}, makefile / "night.json")
    found = json.loads((makefile / "night.json").read_text())["steps"]
    assert found["mutants-first"] == {"seconds": 7}
    assert found["second"]["exitCode"] == 0


@pytest.mark.parametrize("said", ["SEEDS", "SEEDS=many", "WHAT=1"])
def test_a_malformed_size_is_refused(said: str) -> None:
    with pytest.raises(SystemExit, match="NAME=NUMBER"):
        chosen_sizes(said)


def test_steps_are_chosen_by_name_in_their_own_order() -> None:
    assert [step.name for step in chosen_steps("sim,fuzz-tight")] == ["fuzz-tight", "sim"]
    with pytest.raises(SystemExit, match="there is no step 'sin'"):
        chosen_steps("sin")


# What fails on purpose is decided by name, and a decision lasts as long as the failure.


@pytest.mark.parametrize(
    ("more", "fewer", "lines"),
    [
        ((), (), []),
        (("b", "a"), (), ["a fails", "b fails"]),
        ((), ("combined-taint-and-spread",), ["combined-taint-and-spread passes: its entry in DECIDED is out of date"]),
    ],
    ids=["as decided", "others fail", "a decided one passes"],
)
def test_what_is_wrong_is_named(more: tuple[str, ...], fewer: tuple[str, ...], lines: list[str]) -> None:
    assert verdict((set(DECIDED) | set(more)) - set(fewer)) == lines


# The replay of decisions must not pass where nothing was repeated.


@pytest.mark.parametrize(
    ("decisions", "equal", "expected"), [(1000, 1000, True), (999, 999, False), (1001, 1000, False), (0, 0, False)]
)
def test_all_decisions_are_the_same_and_they_are_many(decisions: int, equal: int, expected: bool) -> None:
    assert is_held({"decisions": decisions, "equal": equal}, 1000) is expected


def test_figures_are_kept_for_each_python() -> None:
    found = {"a": {"python": "3.11.7", "equal": 1}, "b": {"python": "3.13.5", "equal": 2}}
    assert [figures["equal"] for figures in summarised(found)["pythons"].values()] == [1, 2]


def test_ledgers_are_joined_without_losing_a_decision(tmp_path: Path) -> None:
    """Worlds of two seeds may decide the same at the same time: the names are equal then, what was seen is not."""
    for seed in range(PARTS + 2):
        for key in ("decisions/simulated/2026/11/20/000000Z-disrupt-7f3a", f"bases/simulated/{seed % PARTS}"):
            file = tmp_path / "kept" / f"seed-{seed}" / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"of {seed}")
    parts = in_parts(tmp_path / "kept", tmp_path / "parts")
    assert len(parts) == PARTS
    decisions = [file.read_text() for part in parts for file in part.glob("decisions/**/*-disrupt-*")]
    assert sorted(decisions) == [f"of {seed}" for seed in range(PARTS + 2)]
