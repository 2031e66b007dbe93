"""Mutants that change nothing that a caller can see: they cannot be killed, and each says why."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.mutation.areas import ROOT
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.places import place_of

FILE: Final = Path(__file__).with_name("equivalent.toml")


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the list.

    Attributes:
        file: The module.
        function: The qualified name of the outermost function that holds it; empty for code that runs at import.
        was, now: The piece of code before and after. All mutants of the function with these two are meant.
        why: Why no caller can see it.
    """

    file: str
    function: str
    was: str
    now: str
    why: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it has in common with its mutants."""
        return self.file, self.function, self.was, self.now


def entries() -> list[Equivalent]:
    """The list.

    Raises:
        msgspec.ValidationError: If an entry lacks a field or has another.
    """
    return msgspec.convert(tomllib.loads(FILE.read_text())["mutant"], list[Equivalent])


def stale(listed: Iterable[Equivalent]) -> list[str]:
    """What is wrong with the list: entries without a mutant in today's code, without a reason, or named twice."""
    listed = list(listed)
    keys = {file: _keys(file) for file in sorted({one.file for one in listed}) if (ROOT / file).is_file()}
    found = [
        f"{one.file}: {one.function}: there is no `{one.was}` → `{one.now}`"
        for one in listed
        if one.key not in keys.get(one.file, ())
    ]
    found += [f"{one.file}: {one.function}: `{one.now}` says no reason" for one in listed if len(one.why.split()) < 4]
    found += [f"{key}: named twice" for key, count in Counter(one.key for one in listed).items() if count > 1]
    return found


def without(chosen: Sequence[Mutant], listed: Iterable[Equivalent]) -> list[Mutant]:
    """The mutants that can be killed."""
    keys = {one.key for one in listed}
    files = {key[0] for key in keys}
    return [one for one in chosen if one.path not in files or _key(one, (ROOT / one.path).read_text()) not in keys]


def _keys(file: str) -> set[tuple[str, str, str, str]]:
    source = (ROOT / file).read_text()
    return {_key(one, source) for one in mutants(file, source)}


def _key(mutant: Mutant, source: str) -> tuple[str, str, str, str]:
    return mutant.path, place_of(mutant, source).function, mutant.was, mutant.now
