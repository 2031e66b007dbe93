"""Mutants change the code and parse; otherwise, the score counts wrong ones."""

from __future__ import annotations

import ast
import gc
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import pytest

from core.api.translation import KEPT, node_pool
from core.interpreter import ByIdentity
from tests.mutation import exclusions, selection
from tests.mutation import mutants as applied
from tests.mutation.__main__ import _said, faults, not_drawn, noticed, sample, summarised
from tests.mutation.areas import ROOT, SUITES, WHOLE_RESULTS, area_of, is_of_area, modules, place_of
from tests.mutation.coverage_map import Caches, CoverageMap
from tests.mutation.exclusions import Equivalent, Named, keep
from tests.mutation.fates import Fate
from tests.mutation.mutants import (
    SETTINGS,
    Mutant,
    NotAppliedError,
    apply_at_import,
    apply_to_functions,
    broken,
    functions,
    left_out,
    mutants,
)
from tests.unit.api.objects import NODE_POOL

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
    assert changes("pairs = zip(a, b, strict=True)") == set()


@pytest.mark.parametrize(
    ("path", "source", "kind"),
    [
        ("core/m.py", 'T = TypeVar("T", bound=Struct)', "type"),
        ("core/m.py", "TYPES_REMEMBERED: Final = 16", "cache size"),
        ("core/m.py", "found = ByIdentity(read, size=8)", "cache size"),
        ("core/m.py", "class One(Struct, frozen=True): ...", "option"),
        *((path, "class FluidSettings(Struct):\n    rounds_max: int = 12", "tuning") for path in SETTINGS),
    ],
)
def test_a_kind_of_code_whose_faults_nobody_sees_is_left_out_and_counted(path: str, source: str, kind: str) -> None:
    assert mutants(path, source) == []
    assert left_out(path, source)[kind] >= 1


@pytest.mark.parametrize(
    "source",
    [
        "RETRIES_MAX: Final = 4",
        "class One(Struct, order=True): ...",
        "class One(Struct, forbid_unknown_fields=True): ...",
        "KEPT_FOR: Final = timedelta(hours=2)",
        "class FluidSettings(Struct):\n    rounds_max: int = 12",
    ],
)
def test_what_somebody_sees_is_not_left_out(source: str) -> None:
    """A bound, an order of objects, and a field that is refused are behaviour; settings are those of the search alone."""
    assert mutants("core/m.py", source)


def test_a_module_without_tests_of_its_own_is_asked_of_those_beside_it() -> None:
    """Those of an area take an hour to measure on a busy machine; a module without its own would be asked of nothing."""
    found = [Mutant(path, 1, 0, 0, "a", "b") for path in ("core/pools.py", "core/api/no_such.py")]
    assert selection.own_suites(found) == ["tests/unit/test_pools.py", "tests/unit/api"]


def test_whole_results_are_asked_with_the_tests_of_a_module() -> None:
    found = [Mutant("core/scheduling/planner.py", 1, 0, 0, "a", "b")]
    assert selection.whole_suites(found) == [
        "tests/property/scheduling/test_expected_plans.py",
        "tests/property/scheduling/test_expected_searches.py",
    ]
    for area, tests in WHOLE_RESULTS.items():
        assert all(is_of_area(f"{test}::test", area) for test in tests)


def test_what_is_left_out_is_counted_by_area() -> None:
    """The page says how many faults were not drawn, and why: a kind that grows unnoticed would raise the score."""
    found = not_drawn(["core/packing/settings.py", "core/pools.py", "core/pools.py"])
    assert found["core/packing"]["tuning"] > 50
    assert found["core/pools.py"]["cache size"] >= 3
    assert found["core/pools.py"]["listed"] == sum(e.file == "core/pools.py" for e in exclusions.entries())


def test_a_sample_is_kept_beside_those_of_other_areas(tmp_path: Path) -> None:
    """A sample that takes another's place would take its score off the page."""
    path = tmp_path / "figures.json"
    path.write_text('{"steps": {"mutants": {}, "mutants-cli": {"figures": 1}, "mutants-pools": {"figures": 2}}}')
    began = datetime(2026, 1, 1, tzinfo=UTC)
    sampled = summarised([Fate(mutants("core/model/m.py", SOURCE)[0], "core/model", "FAILED x", 4)], seed=7)
    ended = began + timedelta(seconds=90)
    keep("pools", sampled, command=["--area", "core/model"], began=began, ended=ended, path=path)
    steps = json.loads(path.read_text())["steps"]
    assert steps.keys() == {"mutants", "mutants-cli", "mutants-pools"}
    assert steps["mutants-cli"] == {"figures": 1}
    assert steps["mutants-pools"]["figures"] == sampled
    assert steps["mutants-pools"]["command"] == "python -m tests.mutation --area core/model"
    assert steps["mutants-pools"]["seconds"] == 90
    assert steps["mutants-pools"]["lastLines"] == ["1 of 1 killed (100 %), seed 7"]


def test_named_faults_are_kept_as_such(tmp_path: Path) -> None:
    """They are drawn by no seed, and a run in which one survives did not end well."""
    path = tmp_path / "figures.json"
    path.write_text('{"steps": {}}')
    now = datetime(2026, 1, 1, tzinfo=UTC)
    found = summarised([Fate(mutants("core/model/m.py", SOURCE)[0], "core/model", "", 4)], seed=1) | {"named": []}
    keep("named", found, command=["--named"], began=now, ended=now, exit_code=1, path=path)
    step = json.loads(path.read_text())["steps"]["mutants-named"]
    assert (step["lastLines"], step["exitCode"]) == (["0 of 1 killed (0 %), named faults"], 1)


def test_the_command_of_a_kept_sample_names_no_file_of_its_machine() -> None:
    words = ["--own", "--area", "core/model", "--json", "/tmp/x.json", "--seed", "7", "--keep", "pools"]  # noqa: S108 - not opened
    assert _said(words, ("--keep", "--json")) == ["--own", "--area", "core/model", "--seed", "7"]


def test_a_table_beside_a_test_is_part_of_its_text() -> None:
    """The table of defaults names each field, and its test does not: no fault of a default was ever asked of it."""
    mutant = next(m for m in mutants("core/model/plan.py", (ROOT / "core/model/plan.py").read_text()) if m.was == "0")
    place = place_of(mutant, (ROOT / mutant.path).read_text())
    test = "tests/unit/model/test_defaults.py::test_every_default_is_the_one_in_the_table"
    assert selection.tests_at_import(mutant, place, CoverageMap({}), [test]) == [test]


def test_a_constant_is_asked_of_the_tests_of_its_module_whatever_they_name() -> None:
    """A test of all kinds names none of them: a fault in one was asked of nothing, and counted as a survivor."""
    path = "core/manifests/wire/resources.py"
    source = (ROOT / path).read_text()
    one = next(m for m in mutants(path, source) if m.was == "False" and "CSI_NODES" in source.splitlines()[m.line - 1])
    own = "tests/unit/manifests/wire/test_resources.py::test"
    asked = selection.tests_at_import(
        one, place_of(one, source), CoverageMap({}), [own, "tests/unit/manifests/test_pods.py::test"]
    )
    assert asked == [own]


def test_what_a_module_makes_of_a_constant_carries_its_fault() -> None:
    """Here and in other modules: the rules of a class are what its definition for the API server is made of."""
    made = selection.made_of(("_cel_family_is",), "core/api/schemas/ec2_node_class.py")
    assert {"_CEL_LACKS", "INSTANCE_RULES", "EC2NodeClassSpec", "EC2NodeClassObject", "KINDS"} <= set(made)
    made = selection.made_of(("QualifiedName",), "core/api/schemas/fields.py")
    assert {"TaintEntry", "NodePoolSpec", "MODELS"} <= set(made), "it is taken of the module, not imported by its name"
    assert selection.made_of(("as_v1",), "core/api/older_versions.py") == ()


def test_each_mutant_changes_the_code_and_parses() -> None:
    """Every mutant of one of the project's modules parses, differs, and keeps the line numbers."""
    path = "core/disruption/budgets.py"
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


def test_the_sample_depends_on_seed_and_modules_only() -> None:
    paths = [*modules("core/brakes.py"), *modules("core/pools.py")]
    first = sample(paths, 20, 1)
    assert first == sample(paths, 20, 1) != sample(paths, 20, 2)
    assert {area_of(mutant.path) for mutant in first} == {"core/brakes.py", "core/pools.py"}


def test_a_module_without_tests_of_its_own_cannot_be_asked_of_them() -> None:
    """Pytest would collect all tests there are."""
    command = [sys.executable, "-m", "tests.mutation", "--module", "core/no_such_module.py"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert ended.returncode == 2
    assert "there are no tests at tests/unit/test_no_such_module.py" in ended.stdout


def test_every_area_has_modules_and_tests() -> None:
    """The mutants of a moved folder would never be tested."""
    for area, tests in SUITES.items():
        assert modules(area), area
        assert all((ROOT / path).exists() for path in tests), area


def test_a_test_belongs_to_the_area_that_names_its_folder() -> None:
    assert is_of_area("tests/unit/api/test_one.py::test_one", "core/api")
    assert is_of_area("tests/unit/test_brakes.py::test_one", "core/brakes.py")
    assert not is_of_area("tests/unit/apiaries/test_one.py::test_one", "core/api")


def test_a_mutant_lies_in_a_statement_of_a_function_or_runs_at_import() -> None:
    """Tests are chosen by the lines of the statement; code that runs at import needs a new import."""
    found = {mutant.was: place_of(mutant, SOURCE) for mutant in mutants("m.py", SOURCE)}
    assert found["3"].function == ""
    assert found["3"].names == ("LIMIT",)
    call = found["note(name, limit=used)"]
    assert (call.function, call.function_line, call.first, call.last) == ("allowed", 8, 12, 15)
    head = found["used <= LIMIT"]
    assert (head.first, head.last) == (10, 10)


def test_an_entry_without_its_mutant_is_reported() -> None:
    path = "core/breakers.py"
    gone = Equivalent(path, "failures_of", "x == 1", "x != 1", "nobody ever reads this")
    assert exclusions.stale([gone]) == [f"{path}: failures_of: there is no `x == 1` → `x != 1`"]
    assert exclusions.stale_named([Named(path, "no such text", "", "nothing")])


def test_a_listed_mutant_is_not_drawn() -> None:
    path = "core/breakers.py"
    one, *others = mutants(path, (ROOT / path).read_text())
    entry = Equivalent(path, place_of(one, (ROOT / path).read_text()).function, one.was, one.now, "only for this test")
    left = exclusions.without([one, *others], [entry])
    assert one not in left
    assert others[-1] in left


def test_an_entry_means_one_mutant() -> None:
    """Another one of the same text may be a real fault: it must be drawn."""
    path = "core/price_terms.py"
    every = [one for one in mutants(path, (ROOT / path).read_text()) if (one.was, one.now) == ("0", "1")]
    several = Equivalent(path, "charged", "0", "1", "only for this test")
    (said,) = exclusions.stale([several])
    assert "several are `0` → `1`" in said
    line = 'family = instance_type.name.partition(".")[«0]'
    assert line in said
    one = msgspec.structs.replace(several, line=line)
    assert exclusions.stale([one]) == []
    left = exclusions.without(every, [one])
    assert len(left) == len(every) - 1
    assert exclusions.stale([msgspec.structs.replace(one, line="of before")]) != []


def test_a_named_fault_is_put_in_by_its_text() -> None:
    listed = exclusions.named()
    for mutant in exclusions.as_mutants(listed):
        source = (ROOT / mutant.path).read_text()
        assert broken(source, mutant) == source.replace(mutant.was, mutant.now) != source
        ast.parse(broken(source, mutant))


def test_the_score_names_the_survivors() -> None:
    """Other programs read its keys."""
    one, other, costly = mutants("core/model/m.py", SOURCE)[:3]
    fates = [Fate(costly, "core/model", "", 4, 2), Fate(one, "core/model", "FAILED x", 4, 2), Fate(other, "core/model")]
    found = summarised(fates, seed=7)
    assert (found["mutants"], found["killed"], found["percent"], found["seed"]) == (3, 1, 33, 7)
    assert found["notAskedOfAll"] == 1
    assert found["survivors"] == [
        {"file": "core/model/m.py", "line": f.line, "what": f"`{f.was}` → `{f.now}`", "notAsked": left_out}
        for f, left_out in ((other, 0), (costly, 2))
    ]


@pytest.mark.slow
def test_a_mutant_that_a_test_asserts_against_is_killed() -> None:
    """All steps: note lines, choose tests, apply in a fork, at import, and report."""
    command = [sys.executable, "-m", "tests.mutation", "--area", "core/brakes.py", "--sample", "15", "--processes", "2"]
    command += ["--wanted", "50"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own
    assert "of 15 killed" in said


def test_named_faults_are_played_by_area() -> None:
    """Otherwise, a part of them asks for the tests of all areas, which takes the better part of an hour."""
    assert {area_of(fault.path) for fault in faults(["core/launch"])} == {"core/launch"}
    assert len(faults(sorted(SUITES))) == len(exclusions.named())


def test_named_faults_are_played_by_module() -> None:
    """Those of one module are asked of its own tests in seconds."""
    paths = ["core/launch/template.py", "core/scheduling/results.py"]
    assert {fault.path for fault in faults(sorted(SUITES), paths)} == set(paths)


def test_the_answer_about_a_named_fault_says_what_it_takes_away_and_which_test_noticed() -> None:
    """The page of what is proven is written from it; faults of other areas were not asked."""
    here, there = Named("core/a.py", "x", "y", "the sign"), Named("core/b.py", "x", "y", "the unit")
    fate = Fate(Mutant("core/a.py", 3, -1, 0, "x", "y"), "core/a", "tests/test_a.py::test_it[3]", 2)
    assert noticed([fate], [here, there]) == [
        {"file": "core/a.py", "what": "the sign", "killer": "tests/test_a.py::test_it[3]"}
    ]


# A mutant is put into functions that other modules have imported already; otherwise, every one would seem to survive.


SOURCE_TEXT = """
from functools import cache

LIMIT = 3


class Box:
    @property
    def is_full(self):
        return any(one >= LIMIT for one in self.content)

    content = (3,)


@cache
def fits(amount):
    return amount < LIMIT


def limited(least):
    def is_allowed(amount):
        return amount >= least

    return is_allowed


is_large = limited(2)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(applied, "ROOT", tmp_path)
    monkeypatch.setattr(SourceFileLoader, "get_code", SourceFileLoader.get_code)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "m.py").write_text(SOURCE_TEXT)
    return imported(tmp_path)


def imported(folder: Path) -> ModuleType:
    spec = spec_from_file_location("m", folder / "m.py")
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def mutant(was: str) -> Mutant:
    return next(one for one in mutants("m.py", SOURCE_TEXT) if one.was == was)


def test_functions_that_exist_run_it(module: ModuleType) -> None:
    """A method behind a property, and a function behind a cache that another name holds."""
    fits, box = module.fits, module.Box()
    for was in ("one >= LIMIT", "amount < LIMIT"):
        one = mutant(was)
        apply_to_functions(one, place_of(one, SOURCE_TEXT), functions())
    assert not box.is_full
    assert fits(3)


def test_functions_that_a_function_made_at_import_run_it(module: ModuleType) -> None:
    """Rules that a module makes of one function would all seem to be tested by nothing."""
    assert module.is_large(2)
    one = mutant("amount >= least")
    apply_to_functions(one, place_of(one, SOURCE_TEXT), functions())
    assert not module.is_large(2)


def test_what_runs_at_import_is_only_seen_by_a_new_import(module: ModuleType) -> None:
    one = mutant("3")
    with pytest.raises(NotAppliedError):
        apply_to_functions(one, place_of(one, SOURCE_TEXT), functions())
    apply_at_import(one)
    assert module.LIMIT == 3
    assert imported(applied.ROOT).LIMIT == 4


# Each test is noted with all lines that it needs, and sees a mutant in them, whichever test ran before it.


ASKED: list[object] = []


@cache
def helper(number: int) -> int:
    ASKED.append(number)
    return number


def by_object(key: SimpleNamespace) -> SimpleNamespace:
    ASKED.append(key)
    return key


def test_what_a_function_remembers_is_forgotten() -> None:
    """Otherwise, only the first test that asks it seems to run the code behind it."""
    one, kept = SimpleNamespace(), ByIdentity(by_object, size=KEPT)
    caches = Caches()
    ASKED.clear()
    for times in (1, 2):
        caches.empty()
        for _ in range(3):
            helper(1)
            kept(one)
        assert [1, one] * times == ASKED


def test_caches_are_found_whatever_was_frozen_before() -> None:
    """A command freezes what it has read."""
    gc.freeze()
    test_what_a_function_remembers_is_forgotten()
    assert gc.get_freeze_count() > 0


def test_objects_are_read_again_which_the_product_does_once() -> None:
    """Test modules read some while they are collected: a fault in the hash of a NodePool was noticed by nobody."""
    first = node_pool(NODE_POOL)
    assert node_pool(NODE_POOL) is first
    Caches().empty()
    assert node_pool(NODE_POOL) is not first
