"""Runs tests on the unchanged project with coverage.py, one context per test, and returns the lines that each executed."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutation.areas import CODE, ROOT
from tests.mutation.caches import Caches
from tests.mutation.coverage_map import TestRun


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
