"""A mutant is put into functions that other modules have imported already; otherwise, every one would seem to survive."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutation import applied
from tests.mutation.applied import NotAppliedError, apply_at_import, apply_to_functions, functions
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.places import place_of

SOURCE = """
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
    (tmp_path / "m.py").write_text(SOURCE)
    return imported(tmp_path)


def imported(folder: Path) -> ModuleType:
    spec = spec_from_file_location("m", folder / "m.py")
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def mutant(was: str) -> Mutant:
    return next(one for one in mutants("m.py", SOURCE) if one.was == was)


def test_functions_that_exist_run_it(module: ModuleType) -> None:
    """A method behind a property, and a function behind a cache that another name holds."""
    fits, box = module.fits, module.Box()
    for was in ("one >= LIMIT", "amount < LIMIT"):
        one = mutant(was)
        apply_to_functions(one, place_of(one, SOURCE), functions())
    assert not box.is_full
    assert fits(3)


def test_functions_that_a_function_made_at_import_run_it(module: ModuleType) -> None:
    """Rules that a module makes of one function would all seem to be tested by nothing."""
    assert module.is_large(2)
    one = mutant("amount >= least")
    apply_to_functions(one, place_of(one, SOURCE), functions())
    assert not module.is_large(2)


def test_what_runs_at_import_is_only_seen_by_a_new_import(module: ModuleType) -> None:
    one = mutant("3")
    with pytest.raises(NotAppliedError):
        apply_to_functions(one, place_of(one, SOURCE), functions())
    apply_at_import(one)
    assert module.LIMIT == 3
    assert imported(applied.ROOT).LIMIT == 4
