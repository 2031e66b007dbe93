"""Mutants change the code and parse; otherwise, the score counts wrong ones."""

from __future__ import annotations

import ast

import pytest

from tests.mutation.__main__ import sample, summarised
from tests.mutation.areas import ROOT, SUITES, area_of, modules, suite_of
from tests.mutation.fates import Fate, fates_of
from tests.mutation.mutants import Mutant, broken, mutants

SOURCE = '''"""Docs say 1 == 1."""

from __future__ import annotations

LIMIT: int = 3


def allowed(used: int, name: str = "x") -> bool:
    """Whether used < 1."""
    if not name and used <= LIMIT:
        raise ValueError(f"{used + 1}")
    note(
        name,
        limit=used,
    )
    return any(used - one >= 0 for one in (1, 2))
'''


def changes(source: str) -> set[tuple[str, str]]:
    return {(mutant.was, mutant.now) for mutant in mutants("m.py", source)}


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("3", "4"),
        ("not name and used <= LIMIT", "not name or used <= LIMIT"),
        ("not name and used <= LIMIT", "not name"),
        ("used <= LIMIT", "used < LIMIT"),
        ("not name", "name"),
        ("note(name, limit=used)", "note(name)"),
        ("note(name, limit=used)", "pass"),
        ("used - one", "used + one"),
        ("any((used - one >= 0 for one in (1, 2)))", "all((used - one >= 0 for one in (1, 2)))"),
    ],
)
def test_each_kind_of_fault_is_made(was: str, now: str) -> None:
    assert (was, now) in changes(SOURCE)


def test_text_that_is_not_code_is_not_changed() -> None:
    """Docstrings, annotations and messages are no behaviour."""
    assert not any("1 == 1" in was or "used + 1" in was or was == "int" for was, _ in changes(SOURCE))


def test_each_mutant_changes_the_code_and_parses() -> None:
    """Every mutant of one of the project's modules parses, differs, and keeps the line numbers."""
    path = "core/disruption/budgets/node_pool_budgets.py"
    source = (ROOT / path).read_text()
    found = mutants(path, source)
    assert len(found) > 50
    for mutant in found:
        text = broken(source, mutant)
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(source)), mutant
        assert len(text.splitlines()) == len(source.splitlines()), mutant


def test_a_missing_place_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"m\.py:1"):
        broken(SOURCE, Mutant("m.py", 1, 0, 0, "gone", "here"))


def test_the_sample_depends_on_seed_and_areas_only() -> None:
    first = sample(["core/brakes", "core/pools"], 20, 1)
    assert first == sample(["core/brakes", "core/pools"], 20, 1) != sample(["core/brakes", "core/pools"], 20, 2)
    assert {area_of(mutant.path) for mutant in first} == {"core/brakes", "core/pools"}


def test_every_area_has_modules_and_tests() -> None:
    """The mutants of a moved folder would never be tested."""
    for area, tests in SUITES.items():
        assert modules(area), area
        assert all((ROOT / path).exists() for path in tests), area


def test_a_module_answers_to_its_own_tests_first() -> None:
    """Most mutants are killed there after a second; the area's whole suite takes minutes."""
    assert suite_of("core/brakes/breaker.py") == ("tests/unit/brakes/test_breaker.py", *SUITES["core/brakes"])
    assert suite_of("lambdas/controllers/no_such.py") == SUITES["lambdas/controllers"]


def test_tests_that_import_the_module_come_next() -> None:
    """Otherwise, a fault in a module without tests of its own takes as long as its whole area."""
    found = suite_of("core/lifecycle/draining/deletion.py")
    assert found[0] == "tests/unit/lifecycle/draining/test_deletion.py"
    assert "tests/unit/lifecycle/draining/test_replacing.py" in found[1 : found.index("tests/unit/lifecycle")]


def test_the_score_names_the_survivors() -> None:
    """Other programs read its keys."""
    one, other = mutants("core/pools/m.py", SOURCE)[:2]
    found = summarised([Fate(one, "core/pools", "FAILED x", 1.0), Fate(other, "core/pools", "", 1.0)], seed=7)
    assert (found["mutants"], found["killed"], found["percent"], found["seed"]) == (2, 1, 50, 7)
    assert found["survivors"] == [
        {"file": "core/pools/m.py", "line": other.line, "what": f"`{other.was}` → `{other.now}`"}
    ]


@pytest.mark.slow
def test_a_mutant_that_a_test_asserts_against_is_killed() -> None:
    """All steps: copy, change, test, restore."""
    path = "core/brakes/breaker.py"
    returns = [mutant for mutant in mutants(path, (ROOT / path).read_text()) if mutant.now == "return None"][:2]
    found = list(fates_of(returns, processes=1))
    assert len(found) == 2
    assert any("test_breaker.py" in fate.killer for fate in found)
