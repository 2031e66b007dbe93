"""Mutants that change nothing that a caller can see: they cannot be killed, and each says why."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.mutation.areas import ROOT, place_of
from tests.mutation.mutants import BY_TEXT, Mutant, mutants

FILE: Final = Path(__file__).with_name("equivalent.toml")


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the list.

    Attributes:
        file: The module.
        function: The qualified name of the outermost function that holds it; empty for code that runs at import.
        was, now: The piece of code before and after.
        why: Why no caller can see it.
        line: Where the function has several mutants with these two: the text of the line, with « before the one that is meant.
    """

    file: str
    function: str
    was: str
    now: str
    why: str
    line: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it has in common with its mutants."""
        return self.file, self.function, self.was, self.now

    def means(self, mutant: Mutant, source: str) -> bool:
        """Whether it is this mutant."""
        return _key(mutant, source) == self.key and self.line in ("", _marked(mutant, source))


def entries() -> list[Equivalent]:
    """The list.

    Raises:
        msgspec.ValidationError: If an entry lacks a field or has another.
    """
    return msgspec.convert(tomllib.loads(FILE.read_text())["mutant"], list[Equivalent])


def stale(listed: Iterable[Equivalent]) -> list[str]:
    """What is wrong with the list: entries without a mutant in today's code or with several, without a reason, named twice."""
    listed = list(listed)
    places = {file: _places(file) for file in sorted({one.file for one in listed}) if (ROOT / file).is_file()}
    found = []
    for one in listed:
        meant = [at for at in places.get(one.file, {}).get(one.key, ()) if one.line in ("", at)]
        what = f"{one.file}: {one.function}: there is no `{one.was}` → `{one.now}`"
        if not meant:
            found.append(what)
        elif len(meant) > 1:
            found.append(what.replace("there is no", "several are") + f"; `line` says which: {', '.join(meant)}")
    found += [f"{one.file}: {one.function}: `{one.now}` says no reason" for one in listed if len(one.why.split()) < 4]
    found += [
        f"{key}: named twice" for key, count in Counter((*one.key, one.line) for one in listed).items() if count > 1
    ]
    return found


def without(chosen: Sequence[Mutant], listed: Iterable[Equivalent]) -> list[Mutant]:
    """The mutants that can be killed."""
    by_file: dict[str, list[Equivalent]] = defaultdict(list)
    for entry in listed:
        by_file[entry.file].append(entry)
    return [one for one in chosen if not any(e.means(one, (ROOT / one.path).read_text()) for e in by_file[one.path])]


def _places(file: str) -> dict[tuple[str, str, str, str], list[str]]:
    """What an entry has in common with mutants → the line of each."""
    source, found = (ROOT / file).read_text(), defaultdict(list)
    for one in mutants(file, source):
        found[_key(one, source)].append(_marked(one, source))
    return found


def _marked(mutant: Mutant, source: str) -> str:
    line = source.splitlines()[mutant.line - 1].encode()
    return (line[: mutant.column].decode() + "«" + line[mutant.column :].decode()).strip()


def _key(mutant: Mutant, source: str) -> tuple[str, str, str, str]:
    return mutant.path, place_of(mutant, source).function, mutant.was, mutant.now


# Faults by hand: each took something away that matters, and most were once noticed by no test.


NAMED: Final = Path(__file__).with_name("named.toml")


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
    return msgspec.convert(tomllib.loads(NAMED.read_text())["fault"], list[Named])


def stale_named(listed: Iterable[Named]) -> list[str]:
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


# Keeps a sample of some areas in docs/figures.json, from which `make docs` writes the page of what is proven.


FIGURES: Final = ROOT / "docs" / "figures.json"


def keep(
    name: str,
    figures: Mapping[str, Any],
    *,
    command: Sequence[str],
    began: datetime,
    ended: datetime,
    exit_code: int = 0,
    path: Path = FIGURES,
) -> None:
    """Write the step `mutants-NAME`, in place of an earlier one of this name; other steps stay."""
    kept = json.loads(path.read_text())
    of = "named faults" if "named" in figures else f"seed {figures['seed']}"
    killed = f"{figures['killed']} of {figures['mutants']} killed ({figures['percent']} %), {of}"
    kept["steps"][f"mutants-{name}"] = {
        "startedAt": began.isoformat(timespec="seconds"),
        "commit": _commit(),
        "command": " ".join(["python -m tests.mutation", *command]),
        "exitCode": exit_code,
        "seconds": round((ended - began).total_seconds()),
        "lastLines": [killed],
        "figures": figures,
    }
    path.write_text(json.dumps(kept, indent=2) + "\n")


def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    git = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
    return git.stdout.strip()
