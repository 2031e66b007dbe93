"""Decides whether each mutant is killed: each process applies it to its own copy of the checkout, and runs the tests."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

from tests.mutation.areas import ROOT, area_of, suite_of
from tests.mutation.forked import LATE, PASSED, Forked
from tests.mutation.mutants import Mutant, broken

_FIRST_SECONDS_MAX: Final = 900.0
"""For an area's tests on the unchanged project."""

_PATIENCE: Final = 3.0
"""A mutant counts as killed if its tests take this many times as long as those of the unchanged project."""

_START_SECONDS: Final = 10.0
"""Added to the limit of every run: imports on a busy machine."""


class Fate(msgspec.Struct, frozen=True):
    """The result of a mutant: `killer` is the test that failed, empty for a survivor."""

    mutant: Mutant
    area: str
    killer: str
    seconds: float


def fates_of(chosen: Sequence[Mutant], processes: int) -> Iterator[Fate]:
    """Each mutant's fate, as it becomes known."""
    if not chosen:
        return
    with get_context("fork").Pool(min(processes, len(chosen)), _own_a_copy) as pool:
        yield from pool.imap_unordered(_fate_of, chosen)
        pool.close()
        pool.join()


_root = ROOT
_forked: Forked | None = None
_limits: dict[str, float] = {}


def _own_a_copy() -> None:
    """Make this process's copy, and make it what `import` finds."""
    global _root, _forked  # noqa: PLW0603 - a process of the pool has no other home for what it owns
    folder = tempfile.mkdtemp(prefix="fleetwright-mutants-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _root = _copied(Path(folder) / "project")
    os.chdir(_root)
    sys.path.insert(0, str(_root))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("core", "tests", "lambdas")]:
        if not name.startswith("tests.mutation"):
            del sys.modules[name]  # of the checkout: the copy's are to be imported
    _forked = Forked()


def _fate_of(mutant: Mutant) -> Fate:
    assert _forked is not None
    area = area_of(mutant.path)
    if area not in _limits:
        _limits[area] = _PATIENCE * _sound_seconds(_forked, mutant) + _START_SECONDS
    path = _root / mutant.path
    sound = path.read_text()
    path.write_text(broken(sound, mutant))
    try:
        ended = _forked.run(suite_of(mutant.path), _limits[area])
    finally:
        path.write_text(sound)
    killer = "" if ended.status == PASSED else "the clock" if ended.status == LATE else ended.first or "an error"
    return Fate(mutant, area, killer, round(ended.seconds, 1))


def _sound_seconds(forked: Forked, mutant: Mutant) -> float:
    """How long the tests take on the unchanged project, which must pass them."""
    ended = forked.run(suite_of(mutant.path), _FIRST_SECONDS_MAX)
    if ended.status != PASSED:
        raise RuntimeError(f"{area_of(mutant.path)}: its tests fail without any fault: {ended.first}")
    return ended.seconds


def _copied(root: Path) -> Path:
    """The checkout's files that git knows, and what is new."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - fixed arguments
    for name in said.stdout.splitlines():
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    return root
