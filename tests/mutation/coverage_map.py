"""Records which test executes which lines, and how long it takes; only tests of changed files are measured again."""

from __future__ import annotations

import gc
import hashlib
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import coverage
import msgspec
import pytest

from tests.mutation.areas import CODE, ROOT

FILE: Final = ROOT / "build" / "mutants-lines.json"


class TestRun(msgspec.Struct):
    """One test on the unchanged project.

    Attributes:
        seconds: Of processor time, while its lines were noted: about twice as long as without.
        lines: Module → the lines that it executed, bit by bit: line 9 is the second bit of the second byte.
        fails: It fails without any mutant, so it says nothing about one and is not asked.
    """

    seconds: float
    lines: dict[str, bytes]
    fails: bool


class TestFile(msgspec.Struct):
    """The tests of a module of tests, by pytest's name, and the digest of its text."""

    digest: str
    tests: dict[str, TestRun]


class CoverageMap(msgspec.Struct):
    """All measurements for this state of the code.

    Changes of shared fakes and builders are not detected: a test that now executes another line is not asked about it. A mutant
    may therefore seem to survive, but none seems to be killed.

    Attributes:
        code: Module → digest of its text. Tests that executed a module are unknown once it has changed.
        imported: Module → the lines that ran while tests were collected, bit by bit. A mutant there comes too late for
            functions that exist.
        files: By path.
    """

    code: dict[str, str] = msgspec.field(default_factory=dict)
    imported: dict[str, bytes] = msgspec.field(default_factory=dict)
    files: dict[str, TestFile] = msgspec.field(default_factory=dict)

    def seconds(self, test: str) -> float:
        """How long a test took; zero for one that was never run."""
        run = self._run(test)
        return run.seconds if run is not None else 0.0

    def lines_run(self, test: str, path: str) -> int:
        """How many lines of a module a test executes."""
        run = self._run(test)
        return int.from_bytes(run.lines.get(path, b""), "little").bit_count() if run is not None else 0

    def tests_of(self, path: str, first: int, last: int) -> list[str]:
        """The tests that execute one of the lines from the first to the last, by name."""
        return self.tests_of_lines(path, range(first, last + 1))

    def tests_of_lines(self, path: str, lines: Iterable[int]) -> list[str]:
        """The tests that execute one of these lines, by name."""
        asked = _bits(lines)
        return sorted(
            name
            for file in self.files.values()
            for name, run in file.tests.items()
            if path in run.lines and int.from_bytes(run.lines[path], "little") & asked
        )

    def failing(self, tests: Iterable[str]) -> list[str]:
        """Those of these tests that fail without any mutant."""
        return [test for test in tests if (run := self._run(test)) is not None and run.fails]

    def names(self) -> list[str]:
        """All tests that were measured since their file changed."""
        every = [test for file in self.files.values() for test in file.tests]
        unknown = set(self.unknown(every))
        return sorted(test for test in every if test not in unknown)

    def runs_at_import(self, path: str, first: int, last: int) -> bool:
        """Whether one of these lines ran while tests were collected."""
        return bool(int.from_bytes(self.imported.get(path, b""), "little") & _bits(range(first, last + 1)))

    def unknown(self, tests: Iterable[str]) -> list[str]:
        """Those of these tests that were not run since their file changed."""
        digests: dict[str, str] = {}
        found = []
        for test in tests:
            file = test.partition("::")[0]
            digest = digests.setdefault(file, _digest([ROOT / file]))
            known = self.files.get(file)
            if known is None or known.digest != digest or test not in known.tests:
                found.append(test)
        return found

    def note(self, runs: Mapping[str, TestRun], imported: Mapping[str, bytes]) -> None:
        """Keep the measurements of tests and imports, and drop those of other versions of the same files."""
        for path, bits in imported.items():
            self.imported[path] = _united(self.imported.get(path, b""), bits)
        for test, run in runs.items():
            file = test.partition("::")[0]
            digest = _digest([ROOT / file])
            if file not in self.files or self.files[file].digest != digest:
                self.files[file] = TestFile(digest, {})
            self.files[file].tests[test] = run

    def save(self) -> None:
        """Write the file, whole or not at all."""
        FILE.parent.mkdir(parents=True, exist_ok=True)
        beside = FILE.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(self))
        beside.replace(FILE)

    def _run(self, test: str) -> TestRun | None:
        file = self.files.get(test.partition("::")[0])
        return file.tests.get(test) if file is not None else None


def kept_map() -> CoverageMap:
    """The measurements of earlier runs that hold for the present code."""
    files = sorted(file for folder in CODE for file in (ROOT / folder).rglob("*.py"))
    code = {str(file.relative_to(ROOT)): _digest([file]) for file in files}
    try:
        kept = msgspec.json.decode(FILE.read_bytes(), type=CoverageMap)
    except (OSError, msgspec.ValidationError, msgspec.DecodeError):
        return CoverageMap(code)
    changed = {path for path in kept.code.keys() | code.keys() if kept.code.get(path) != code.get(path)}
    kept.files = {path: file for path, file in kept.files.items() if (ROOT / path).is_file()}
    for file in kept.files.values():
        file.tests = {name: run for name, run in file.tests.items() if changed.isdisjoint(run.lines)}
    kept.imported = {path: bits for path, bits in kept.imported.items() if path not in changed}
    kept.code = code
    return kept


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(ROOT)}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _united(one: bytes, other: bytes) -> bytes:
    both = int.from_bytes(one, "little") | int.from_bytes(other, "little")
    return both.to_bytes(max(len(one), len(other)), "little")


def _bits(lines: Iterable[int]) -> int:
    return sum(1 << line for line in lines)


# The caches of the project and of its tests, which would hide the lines that a test needs, and a mutant in them.


_Caching: Final = type(lru_cache(lambda: None))
_FOLDERS: Final = (*CODE, "tests")


class Caches:
    """Empties the caches of functions that exist; looks for new ones when more modules have been imported."""

    def __init__(self) -> None:
        self._emptied: list[Callable[[], None]] = []
        self._modules = 0

    def empty(self) -> None:
        """Forget all results, so that they are computed again."""
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            self._emptied = _found()
        for forget in self._emptied:
            forget()


def _found() -> list[Callable[[], None]]:
    """What empties each cache: those of `functools`, and those by identity of `core.interpreter`."""
    identity_cache = sys.modules.get("core.interpreter")
    by_identity = getattr(identity_cache, "ByIdentity", None)
    found: list[Callable[[], None]] = []
    is_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()  # objects that are frozen are not listed, and whatever ran before may have frozen them
    for one in gc.get_objects():
        if type(one) is _Caching and _is_ours(one.__wrapped__):
            found.append(one.cache_clear)
        elif type(one) is by_identity:
            found.append(one._known.clear)
    if is_frozen:
        gc.freeze()
    return found


def _is_ours(function: Any) -> bool:
    file = Path(getattr(getattr(function, "__code__", None), "co_filename", ""))
    return file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in _FOLDERS


# Runs tests on the unchanged project with coverage.py, one context per test, and returns the lines that each executed.


class Tracing:
    """Notes the lines of a process: those of its imports from `start` on, then those of each test."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fleetwright-lines-")
        self._file = Path(self._folder.name) / "lines"
        self._coverage = coverage.Coverage(
            data_file=str(self._file),
            source=[str(ROOT / package) for package in CODE],
            branch=False,
            config_file=False,
        )
        self._tracers: tuple[Any, Any] = (None, None)
        self._failed: set[str] = set()
        self._seconds: dict[str, float] = {}

    def start(self) -> None:
        """Begin, before the project is imported."""
        self._coverage.start()
        self._tracers = (sys.gettrace(), threading.gettrace())

    def stop(self) -> None:
        """End without keeping anything."""
        self._coverage.stop()
        self._folder.cleanup()

    def run(self, items: Sequence[pytest.Item]) -> tuple[dict[str, TestRun], dict[str, bytes]]:
        """Run these; returns what each did and what ran before the first."""
        caches = Caches()
        for number, item in enumerate(items):
            caches.empty()  # otherwise, only the first test that needs a result would run its lines
            self._coverage.switch_context(item.nodeid)
            began = time.process_time()
            following = items[number + 1] if number + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._seconds[item.nodeid] = round(time.process_time() - began, 4)
        self._coverage.stop()
        self._coverage.save()
        return self._read()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Trace whole-system tests, too: the project's conftest.py switches the tracer off around them."""
        sys.settrace(self._tracers[0])
        threading.settrace(self._tracers[1])
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember who fails without any mutant."""
        if report.failed:
            self._failed.add(report.nodeid)

    def _read(self) -> tuple[dict[str, TestRun], dict[str, bytes]]:
        runs = {test: TestRun(seconds, {}, fails=test in self._failed) for test, seconds in self._seconds.items()}
        imported: dict[str, bytes] = {}
        question = (
            "select context.context, file.path, numbits from line_bits "
            "join context on context.id = context_id join file on file.id = file_id"
        )
        with sqlite3.connect(self._file) as rows:
            for test, file, bits in rows.execute(question):
                lines = runs[test].lines if test in runs else imported
                lines[str(Path(file).relative_to(ROOT))] = bits
        self._file.unlink()
        return runs, imported
