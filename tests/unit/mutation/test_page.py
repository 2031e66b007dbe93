"""The page of what is proven compares, replaces and explains samples of deliberate faults."""

from __future__ import annotations

import json
from typing import Any

from tests.figures import DOCS, NIGHT, proven
from tests.mutation import page
from tests.mutation.page import Survivor

MACHINE = {"processors": 2, "python": "3"}


def a_sample(
    started: str, seed: int, survivors: list[str], command: str = "c", **areas: tuple[int, int]
) -> dict[str, Any]:
    """A step of mutants: area, with `_` for `/` → faults and those that were killed."""
    scores = {area.replace("_", "/"): {"mutants": made, "killed": dead} for area, (made, dead) in areas.items()}
    rows = [{"file": file, "line": 7, "what": "`a` → `b`"} for file in survivors]
    made, dead = (sum(pair[n] for pair in areas.values()) for n in (0, 1))
    figures = {
        "seed": seed,
        "mutants": made,
        "killed": dead,
        "percent": 100 * dead // made,
        "areas": scores,
        "survivors": rows,
    }
    fixed = {"command": command, "commit": f"{seed}" * 20, "exitCode": 0, "seconds": 1, "lastLines": []}
    return {**fixed, "startedAt": started, "figures": figures}


def test_a_later_sample_of_an_area_takes_the_place_of_its_part_of_the_whole_one() -> None:
    """The whole sample takes two hours; one of an area tells what its new tests are worth."""
    steps = {
        "mutants-cli": a_sample("2026-11-27T02:00", 2, ["cli/new.py"], "c --area cli", cli=(20, 19)),
        "mutants": a_sample("2026-11-27T01:00", 1, ["cli/old.py", "core/model/a.py"], cli=(10, 5), core_model=(10, 9)),
        "mutants-named": {**a_sample("2026-11-27T03:00", 3, [], cli=(1, 1)), "figures": None},
    }
    steps["mutants"]["figures"]["survivors"][1]["notAsked"] = 3
    text = proven({"machine": MACHINE, "steps": steps})
    assert "28 of 30 (93 %)" in text
    assert "`core/model/a.py:7`: `a` → `b` (3 more tests run it, and take too long to be asked)" in text
    assert "| `cli` | 20 | 19 | 2 | 222222222222 |" in text
    assert "| `core/model` | 10 | 9 | 1 | 111111111111 |" in text
    assert "- `cli/new.py:7`: `a` → `b`\n- `core/model/a.py:7`" in text
    assert "cli/old.py" not in text


def test_a_sample_of_own_tests_alone_takes_the_place_of_no_other() -> None:
    """It is another measure: the score of an area would fall because fewer of its tests were asked."""
    whole, own = (a_sample(f"2026-11-27T0{n}:00", n, [f"cli/{n}.py"], cli=(10, 10 - n)) for n in (1, 2))
    own["figures"]["ownTestsAlone"] = True
    text = proven({"machine": MACHINE, "steps": {"mutants": whole, "mutants-cli": own}})
    assert "9 of 10 (90 %), drawn by the seed" in text
    assert "8 of 10 (80 %): fewer than the tests of their area would" in text
    assert text.index("- `cli/1.py:7`") < text.index("- `cli/2.py:7`")


def test_the_page_counts_what_is_not_drawn_and_says_why() -> None:
    """The latest sample of an area says it; one of before it was counted says nothing."""
    old, new = a_sample("2026-11-27T01:00", 1, [], cli=(9, 9)), a_sample("2026-11-27T02:00", 2, [], core_packing=(9, 9))
    new["figures"]["ownTestsAlone"] = True
    new["figures"]["leftOut"] = {"core/packing": {"tuning": 75, "listed": 3}}
    text = proven({"machine": MACHINE, "steps": {"mutants": old, "mutants-packing": new}})
    assert "| tuning | 75 | a number of `core/packing/settings.py` or `core/packing/settings.py` plus one" in text
    assert "9 of 9 (100 %): fewer than the tests of their area would" in text
    assert "| one by one | 3 | each with its reason in `tests/mutation/equivalent.toml` |" in text
    assert "not drawn" not in proven({"machine": MACHINE, "steps": {"mutants": old}})


def test_a_sample_of_all_areas_takes_the_place_of_all_before_it_and_stands_beside_the_first() -> None:
    """Parts of older code in the sum of today's would make it a figure of no code at all; the first is what it began with."""
    steps = {
        "mutants": a_sample("2026-11-27T01:00", 1, ["cli/old.py"], cli=(10, 5), lambdas_ledger=(4, 3)),
        "mutants-cli": a_sample("2026-11-27T02:00", 2, ["cli/newer.py"], "c --area cli", cli=(20, 15)),
        "mutants-middle": a_sample("2026-11-27T03:00", 3, [], cli=(8, 6)),
        "mutants-whole": a_sample(
            "2026-11-27T04:00", 4, ["cli/whole.py"], cli=(10, 9), core_model=(5, 5), adapters_ledger=(1, 1)
        ),
        "mutants-model": a_sample("2026-11-27T05:00", 5, [], "c --area core/model", core_model=(6, 6)),
    }
    text = proven({"machine": MACHINE, "steps": steps})
    assert "16 of 17 (94 %), drawn by the seed" in text
    assert "The first sample of all areas, seed 1 at 111111111111, had 8 of 14 (57 %)" in text
    assert "| area | faults | killed | seed | commit | first |\n| --- | --- | --- | --- | --- | --- |\n" in text
    assert "| `cli` | 10 | 9 | 4 | 444444444444 | 5 of 10 |" in text
    assert "| `core/model` | 6 | 6 | 5 | 555555555555 | none drawn |" in text
    assert "| `adapters/ledger` | 1 | 1 | 4 | 444444444444 | 3 of 4, as `lambdas/ledger` |" in text
    assert "cli/old.py" not in text
    assert "cli/newer.py" not in text


def test_the_page_counts_what_a_modules_own_tests_killed() -> None:
    sample = a_sample("2026-11-27T01:00", 1, [], core_model=(3, 3), cli=(1, 1))
    sample["figures"]["killers"] = {
        "core/model/a.py:1: `a` → `b`": "tests/unit/model/test_a.py::test_it",
        "core/model/a.py:2: `a` → `b`": "tests/unit/model/test_b.py::test_it",
        "core/model/a.py:3: `a` → `b`": "the import of tests/unit/model/test_a.py",
        "cli/a.py:1: `a` → `b`": "tests/unit/cli/test_a.py::test_it",
    }
    assert "killed 3 of the 4." in "".join(page.sections([sample], []))


def test_a_survivor_is_shown_with_the_word_that_is_said_of_it() -> None:
    sample = a_sample("2026-11-27T01:00", 1, ["cli/a.py", "cli/b.py"], cli=(10, 8))
    said = [
        Survivor(file="cli/a.py", what="`a` → `b`", word="A log line's field."),
        Survivor("cli/b.py", "`b` → `a`", "No."),
    ]
    *_, listed = page.sections([sample], said)
    assert listed == "- `cli/a.py:7`: `a` → `b`: A log line's field.\n- `cli/b.py:7`: `a` → `b`"


def test_every_word_is_of_a_survivor_of_the_kept_samples() -> None:
    kept = json.loads((DOCS / NIGHT).read_text())["steps"].values()
    alive = {(row["file"], row["what"]) for step in kept for row in (step["figures"] or {}).get("survivors", ())}
    assert [one for one in page.words() if (one.file, one.what) not in alive or not one.word] == []
