"""The night run must not report failures as successes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import nightly
from tests.figures import DOCS, NIGHT, proven
from tests.nightly import STEPS, Step, chosen_sizes, chosen_steps, run

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
        found = step["figures"]
        for area, score in found.get("areas", {}).items():
            alive = [row for row in found["survivors"] if row["file"].startswith(f"{area}/")]
            assert len(alive) == score["mutants"] - score["killed"], (name, area)


def a_sample(started: str, seed: int, survivors: list[str], **areas: tuple[int, int]) -> dict[str, Any]:
    """A step of mutants: area, with `_` for `/` → faults and those that were killed."""
    scores = {area.replace("_", "/"): {"mutants": made, "killed": dead} for area, (made, dead) in areas.items()}
    rows = [{"file": file, "line": 7, "what": "`a` → `b`"} for file in survivors]
    figures = {"seed": seed, "areas": scores, "survivors": rows}
    fixed = {"command": "c", "commit": f"{seed}" * 20, "exitCode": 0, "seconds": 1, "lastLines": []}
    return {**fixed, "startedAt": started, "figures": figures}


def test_a_later_sample_of_an_area_takes_the_place_of_its_part_of_the_whole_one() -> None:
    """The whole sample takes two hours; one of an area tells what its new tests are worth."""
    steps = {
        "mutants-cli": a_sample("2026-11-27T02:00", 2, ["cli/new.py"], cli=(20, 19)),
        "mutants": a_sample("2026-11-27T01:00", 1, ["cli/old.py", "core/model/a.py"], cli=(10, 5), core_model=(10, 9)),
        "mutants-named": {**a_sample("2026-11-27T03:00", 3, [], cli=(1, 1)), "figures": None},
    }
    steps["mutants"]["figures"]["survivors"][1]["notAsked"] = 3
    page = proven({"machine": {"processors": 2, "python": "3"}, "steps": steps})
    assert "28 of 30 (93 %)" in page
    assert "`core/model/a.py:7`: `a` → `b` (3 more tests run it, and take too long to be asked)" in page
    assert "| `cli` | 20 | 19 | 2 | 222222222222 |" in page
    assert "| `core/model` | 10 | 9 | 1 | 111111111111 |" in page
    assert "- `cli/new.py:7`: `a` → `b`\n- `core/model/a.py:7`" in page
    assert "cli/old.py" not in page


def test_a_sample_of_own_tests_alone_takes_the_place_of_no_other() -> None:
    """It is another measure: the score of an area would fall because fewer of its tests were asked."""
    whole, own = (a_sample(f"2026-11-27T0{n}:00", n, [f"cli/{n}.py"], cli=(10, 10 - n)) for n in (1, 2))
    own["figures"]["ownTestsAlone"] = True
    page = proven({"machine": {"processors": 2, "python": "3"}, "steps": {"mutants": whole, "mutants-cli": own}})
    assert "9 of 10 (90 %), drawn by the seed" in page
    assert "8 of 10 (80 %): fewer than the tests of their area would" in page
    assert page.index("- `cli/1.py:7`") < page.index("- `cli/2.py:7`")


def test_the_page_counts_what_is_not_drawn_and_says_why() -> None:
    """The latest sample of an area says it; one of before it was counted says nothing."""
    old, new = a_sample("2026-11-27T01:00", 1, [], cli=(9, 9)), a_sample("2026-11-27T02:00", 2, [], core_packing=(9, 9))
    new["figures"]["ownTestsAlone"] = True
    new["figures"]["leftOut"] = {"core/packing": {"tuning": 75, "listed": 3}}
    page = proven({"machine": {"processors": 2, "python": "3"}, "steps": {"mutants": old, "mutants-packing": new}})
    assert (
        "| tuning | 75 | a number of `core/packing/search_settings.py` or `core/packing/size_settings.py` plus one"
        in page
    )
    assert "9 of 9 (100 %): fewer than the tests of their area would" in page
    assert "| one by one | 3 | each with its reason in `tests/mutation/equivalent.toml` |" in page
    assert "not drawn" not in proven({"machine": {"processors": 2, "python": "3"}, "steps": {"mutants": old}})


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


@pytest.mark.parametrize("said", ["SEEDS", "SEEDS=many", "WHAT=1"])
def test_a_malformed_size_is_refused(said: str) -> None:
    with pytest.raises(SystemExit, match="NAME=NUMBER"):
        chosen_sizes(said)


def test_steps_are_chosen_by_name_in_their_own_order() -> None:
    assert [step.name for step in chosen_steps("sim,fuzz")] == ["fuzz", "sim"]
    with pytest.raises(SystemExit, match="there is no step 'sin'"):
        chosen_steps("sin")
