"""Manners of the source that a linter does not see. Limits here only ever tighten."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from tests.expected import MODULES, Expected
from tests.mutation import exclusions
from tests.prose import pages
from tests.walk import ALL, imports

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "installation", "adapters", "lambdas", "simulator", "cli", "infra", "benchmarks")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

MODULE_LINES_MAX = 750
"""A file is one idea, whole: about 700 lines. A second idea is a reason to split it; a length below this is none."""

LONGER: dict[str, int] = {}
"""Tables that are longer; each number may only fall."""

FOLDER_FILES_MIN, FOLDER_LINES_MIN = 2, 500
SMALL_FOLDERS = {
    "adapters/composition": "its files are loaded by different starts",
    "core/approval": "its files are loaded by different starts",
    "infra/constructs/grants": "one file for each service",
    "lambdas": "what a sandbox keeps, beside the folders",
    "lambdas/handlers": "Lambda looks each file up by its name",
    "simulator/market": "data files lie beside them",
}
"""Folder → why it is a folder although it holds less."""

TREE_FILES_MAX = {("core", "adapters", "lambdas"): 260, ("simulator", "cli"): 120}
"""Packages → the most files that they hold together, without package markers."""

TEST_FILES_MAX = 450

FUNCTION_LINES_MAX = 45
FOLDER_FILES_MAX = 30


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_no_module_is_longer_than_a_reader_bears() -> None:
    lines = {relative(path): path.read_text().count("\n") for path in FILES}
    too_long = {path: count for path, count in lines.items() if count > LONGER.get(path, MODULE_LINES_MAX)}
    assert not too_long


def test_every_function_fits_a_screen() -> None:
    too_long = {
        f"{relative(path)}:{function.lineno} {function.name}": lines
        for path in FILES
        for function in functions(ast.parse(path.read_text()))
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert not too_long


def test_modules_are_named_for_what_they_hold() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc", "stuff"}
    assert not [relative(path) for path in FILES if vague & set(relative(path).removesuffix(".py").split("/"))]


def folders() -> Iterator[tuple[str, list[Path]]]:
    """Each folder with files of its own, without package markers."""
    for folder in sorted({path.parent for path in FILES}):
        if files := [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]:
            yield relative(folder), files


def test_no_folder_holds_more_files_than_a_reader_takes_in() -> None:
    assert not {folder: len(files) for folder, files in folders() if len(files) > FOLDER_FILES_MAX}


def test_every_folder_is_worth_opening() -> None:
    """The content of a folder of one file, or of few lines, is a file in the folder above."""
    small = {
        folder
        for folder, files in folders()
        if len(files) < FOLDER_FILES_MIN or sum(path.read_text().count("\n") for path in files) < FOLDER_LINES_MIN
    }
    assert small == set(SMALL_FOLDERS)


def test_the_tree_has_few_files() -> None:
    for packages, most in TREE_FILES_MAX.items():
        files = [path for path in FILES if path.name != "__init__.py" and relative(path).split("/")[0] in packages]
        assert len(files) <= most, packages
    assert len(list((ROOT / "tests").rglob("test_*.py"))) <= TEST_FILES_MAX


def test_nothing_is_left_for_later() -> None:
    unfinished = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError|pytest\.(mark\.)?xfail")
    found = [relative(path) for path in FILES if unfinished.search(path.read_text())]
    assert not found


@pytest.mark.parametrize("name", ["now", "utcnow", "today"])
def test_the_core_never_asks_for_the_time(name: str) -> None:
    """A decision that reads a clock cannot be replayed."""
    for path in (ROOT / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
                base = node.func.value
                assert not (isinstance(base, ast.Name) and base.id in ("datetime", "date")), relative(path)


def test_no_loop_runs_over_a_set_display() -> None:
    """Otherwise, the order of a set of strings differs from process to process, and with it the plan would."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.For | ast.comprehension):
                assert not isinstance(node.iter, ast.Set | ast.SetComp), f"{relative(path)}: loop over a set"


def test_money_and_resources_hold_no_floats() -> None:
    allowed = {"quantity.py"}
    for path in (ROOT / "core" / "model").rglob("*.py"):
        if path.name not in allowed:
            literals = [
                n
                for n in ast.walk(ast.parse(path.read_text()))
                if isinstance(n, ast.Constant) and type(n.value) is float
            ]
            assert not literals, relative(path)


def test_no_secret_address_or_machine_path_is_committed() -> None:
    private = re.compile(r"/work/(main|shared|\.)|/root/|AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY")
    texts = list(ROOT.glob("*.md")) + list((ROOT / "docs").rglob("*.md")) + list((ROOT / "examples").rglob("*.yaml"))
    assert not [relative(path) for path in (*FILES, *texts) if private.search(path.read_text())]


def test_no_symbolic_link_is_committed() -> None:
    """One named .venv took the place of the virtual environment of whoever checked it out."""
    listing = ["git", "ls-files", "--stage"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - git's own word
    listed = done.stdout.splitlines()
    assert listed
    assert not [line.partition("\t")[2] for line in listed if line.startswith("120000 ")]


# Docstrings name what is there: an attribute or argument that was renamed keeps its old name in prose otherwise.


ENTRY = re.compile(r"    \*{0,2}([A-Za-z_][\w, *]*?):(?: |$)")


def named(docstring: str, heading: str) -> list[str]:
    """The names that a section of a docstring explains."""
    found: list[str] = []
    for line in docstring.partition(f"{heading}:\n")[2].splitlines():
        if line and not line.startswith(" "):
            break
        if match := ENTRY.match(line):
            found += [name.strip(" *") for name in match[1].split(",")]
    return found


def attributes(node: ast.ClassDef) -> set[str]:
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef):
            found.add(inner.name)
        elif isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id if isinstance(inner, ast.Name) else inner.attr)
    return found


def arguments(node: ast.ClassDef | ast.FunctionDef) -> set[str]:
    functions = (
        [node] if isinstance(node, ast.FunctionDef) else [n for n in node.body if isinstance(n, ast.FunctionDef)]
    )
    function = next((f for f in functions if isinstance(node, ast.FunctionDef) or f.name == "__init__"), None)
    if function is None:
        return set()
    given = function.args
    more = [one for one in (given.vararg, given.kwarg) if one is not None]
    return {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *more)}


def test_what_a_docstring_explains_is_there() -> None:
    lost = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            text = ast.get_docstring(node) or ""
            gone = set(named(text, "Args")) - arguments(node)
            if isinstance(node, ast.ClassDef):
                gone |= set(named(text, "Attributes")) - attributes(node)
            lost += [f"{relative(path)}:{node.lineno} {node.name}: {name}" for name in sorted(gone)]
    assert not lost


# Numbered steps of a page keep their numbers on GitHub and on the site, whose Markdown wants four spaces.


_STEP = re.compile(r"^\d+\. ")


def broken_steps(page: str) -> list[str]:
    """Return lines at which the site would end a list of steps and begin at 1 again."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    found, steps, before = [], False, ""
    for line in text.splitlines():
        if steps and (re.match(r" {1,3}\S", line) or (_STEP.match(line) and re.match(r" {4}\S", before))):
            found.append(line)
        steps = bool(_STEP.match(line)) or (steps and (line.startswith(" ") or not line.strip()))
        before = line
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_steps_are_not_numbered_again(page: Path) -> None:
    """A reader who is sent to step 5 finds none if each list has two steps."""
    assert broken_steps(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("page", "broken"),
    [
        ("1. One\n\n        code\n\n    Text.\n\n2. Two\n", []),
        ("1. One\n   and more\n2. Two\n", ["   and more"]),
        ("1. One\n\n    Text.\n2. Two\n", ["2. Two"]),
        ("```\n1. One\n   two\n```\n", []),
    ],
)
def test_what_the_site_cannot_continue_is_noticed(page: str, broken: list[str]) -> None:
    assert broken_steps(page) == broken


# The lists of mutants name code that exists: change an entry with its code, or drop it.


def test_every_listed_mutant_can_be_made() -> None:
    """An entry whose code has moved on proves nothing."""
    assert exclusions.stale(exclusions.entries()) + exclusions.stale_named(exclusions.named()) == []


# Every process of a test run collects the same tests, by the same ids.


def test_no_id_is_made_of_bytes(request: pytest.FixtureRequest) -> None:
    named_by_bytes = [
        item.nodeid
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and any(isinstance(value, bytes) and "\\x" in item.callspec.id for value in item.callspec.params.values())
    ]
    assert named_by_bytes == []


# Texts of whole results belong to cases: one that no test compares would be read in vain.


TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("module", MODULES)
def test_each_text_has_a_case_and_each_case_a_text(module: str) -> None:
    expected: Expected = import_module(module).EXPECTED
    assert list(expected.texts()) == list(expected.cases)


def test_every_file_of_texts_is_written_by_the_command() -> None:
    """Otherwise, `python -m tests.expected` leaves texts behind that no longer hold."""
    files = {import_module(module).EXPECTED.file for module in MODULES}
    assert files == set(TESTS.rglob("expected/*.txt"))


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    expected = Expected(tmp_path / "a" / "texts.txt", {"one": lambda: "first\n\n# line", "two, too": lambda: "second"})
    expected.write()
    assert expected.texts() == {"one": "first\n\n# line", "two, too": "second"}
    with pytest.raises(KeyError):
        expected.text("three")


# Each package says in its `__init__` which of its files the rest of the project may import.


SURFACES: Final = sorted(
    str(path.parent.relative_to(ROOT))
    for package in ALL
    for path in (ROOT / package).rglob("__init__.py")
    if str(path.parent.relative_to(ROOT)) not in ALL
)
"""All packages but the outermost, which the contracts of `pyproject.toml` are about."""


def surface(package: str) -> set[str]:
    """The names in the package's `PUBLIC`."""
    for node in ast.parse((ROOT / package / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and [target.id for target in node.targets if isinstance(target, ast.Name)] == [
            "PUBLIC"
        ]:
            return set(ast.literal_eval(node.value))
    return set()


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """Package → its files that others import."""
    found: dict[str, set[str]] = defaultdict(set)
    for file, targets in imports((*ALL, "infra", "benchmarks")).items():
        for target in map(Path, targets):
            if not file.startswith(f"{target.parent}/"):
                found[str(target.parent)].add(target.stem)
    return found


@pytest.mark.parametrize("package", SURFACES)
def test_others_import_what_a_package_offers_and_nothing_else(package: str, imported: dict[str, set[str]]) -> None:
    """An offer that nobody takes up would hide what the inside is."""
    assert imported.get(package, set()) == surface(package)
