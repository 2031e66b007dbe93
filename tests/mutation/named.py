"""Faults by hand: each took something away that matters, and most were once noticed by no test."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from tests.mutation.areas import ROOT
from tests.mutation.mutants import BY_TEXT, Mutant

FILE: Final = Path(__file__).with_name("named.toml")


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry: in this file this text becomes that one, and `what` says what is lost."""

    file: str
    was: str
    now: str
    what: str


def named() -> list[Named]:
    """All of them.

    Raises:
        msgspec.ValidationError: If an entry lacks a field or has another.
    """
    return msgspec.convert(tomllib.loads(FILE.read_text())["fault"], list[Named])


def stale(listed: Iterable[Named]) -> list[str]:
    """The entries whose text does not stand once in today's code."""
    return [
        f"{one.file}: {one.what}: `{one.was.strip()}` stands {_count(one)} times in it, not once"
        for one in listed
        if _count(one) != 1
    ]


def as_mutants(listed: Iterable[Named]) -> list[Mutant]:
    """The entries as mutants of the line in which the code begins to differ."""
    found = []
    for number, one in enumerate(listed):
        text = (ROOT / one.file).read_text()
        same = next((at for at, (a, b) in enumerate(zip(one.was, one.now, strict=False)) if a != b), len(one.now))
        line = text.count("\n", 0, text.index(one.was) + same) + 1
        found.append(Mutant(one.file, line, BY_TEXT, number, one.was, one.now))
    return sorted(found)


def _count(one: Named) -> int:
    file = ROOT / one.file
    return file.read_text().count(one.was) if file.is_file() else 0
