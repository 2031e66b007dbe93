"""Puts a mutant into a running process: into functions that exist, and into modules that are imported later.

Only code objects are replaced, so every name under which a function was imported runs the mutant.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType, FunctionType
from typing import Final

from tests.mutation.areas import ROOT
from tests.mutation.mutants import Mutant, broken
from tests.mutation.places import Place

Functions = dict[tuple[str, str, int], list[FunctionType]]
"""(file, qualified name, first line) → the functions that are made of this code."""


class NotAppliedError(Exception):
    """The functions that exist cannot run the mutant: its module must be imported with it."""


def functions() -> Functions:
    """Every function of the project in this process."""
    found: Functions = defaultdict(list)
    root = f"{ROOT}/"
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(root):
            code = one.__code__
            found[(code.co_filename, code.co_qualname, code.co_firstlineno)].append(one)
    return found


def apply_at_import(mutant: Mutant) -> CodeType:
    """Make the module be imported with the mutant from now on; returns its code."""
    file = ROOT / mutant.path
    code = compile(broken(file.read_text(), mutant), str(file), "exec", dont_inherit=True)
    sound: Final = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        return code if self.path == str(file) else sound(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]
    return code


def apply_to_functions(mutant: Mutant, place: Place, existing: Functions) -> None:
    """Make the functions that exist run the mutant, also those that its function has made.

    Raises:
        NotAppliedError: If there is none, or if the mutant closes over other variables.
    """
    code = apply_at_import(mutant)
    key = (place.function, place.function_line)
    changed = [one for one in _codes(code) if (one.co_qualname, one.co_firstlineno) == key]
    running = existing.get((code.co_filename, *key), [])
    if len(changed) != 1 or not running:
        raise NotAppliedError(f"{mutant.path}: {len(changed)} times {place.function!r}, {len(running)} functions")
    _replace(running, changed[0])
    inner = {one.co_qualname: one for one in _codes(changed[0])}
    for (file, name, _), made in existing.items():
        if file == code.co_filename and name in inner:
            if sum(one.co_qualname == name for one in _codes(changed[0])) > 1:
                raise NotAppliedError(f"{mutant.path}: several functions are {name!r}")
            _replace(made, inner[name])


def _replace(running: Sequence[FunctionType], code: CodeType) -> None:
    for function in running:
        try:
            function.__code__ = code
        except ValueError as error:
            raise NotAppliedError(str(error)) from error


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)
