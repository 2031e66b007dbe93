"""Manners of the source that a linter does not see. Limits here only ever tighten."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    "lambdas/application": "its files are loaded by different starts",
    "lambdas/handlers": "Lambda looks each file up by its name",
    "simulator/market": "data files lie beside them",
}
"""Folder → why it is a folder although it holds less."""

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
