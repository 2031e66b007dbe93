"""`fleetwright simulate`: runs the whole system in virtual time over a scenario."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cli import arguments as shared
from cli.errors import DONE, NEGATIVE, InputError
from cli.inputs import warn
from cli.terminal import output
from cli.terminal.style import write_stderr

if TYPE_CHECKING:
    from cli.report.page import Comparison
    from simulator.world import Progress, Result

_EXAMPLES: Final = """examples:
  fleetwright simulate examples/demo.yaml
  fleetwright simulate examples/demo.yaml --report build/demo.html --compare
  fleetwright simulate examples/trace.yaml --seed 7 -o json
"""
_VIOLATIONS_SHOWN: Final = 20
_SHOW_EVERY_SECONDS: Final = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EXAMPLES
    parser.add_argument("scenario", metavar="SCENARIO", type=Path, help="a file of kind Scenario")
    parser.add_argument("--report", metavar="FILE", type=Path, help="write one self-contained page with charts")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="with --report: also simulate the same pods with Karpenter's moves, and draw the proven minimum",
    )
    parser.add_argument("--record", metavar="FILE", type=Path, help="write what happened, one JSON object a line")
    parser.add_argument(
        "--ledger", metavar="FOLDER", type=Path, help="keep the functions' ledger there, for log, replay and explain"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="instead of the scenario's own seed")
    shared.add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulate the scenario; negative if a violation or an orphan was found."""
    if not arguments.scenario.is_file():
        raise InputError("there is no such file", source=str(arguments.scenario))
    if arguments.compare and arguments.report is None:
        raise InputError("--compare draws lines on the page", hint="give --report FILE, too")
    for target in (arguments.report, arguments.record):
        _make_room(target)
    _make_folder(arguments.ledger)
    from simulator.scenario import read_scenario

    read_scenario(arguments.scenario)  # report problems of the scenario before the simulator is imported
    from simulator.outcome import VIOLATIONS
    from simulator.world import run as simulate

    with _ledger_folder(arguments) as ledger:
        with _functions_kept_quiet(), _progress() as progress:
            result = simulate(
                arguments.scenario,
                seed=arguments.seed,
                record=arguments.record,
                ledger=ledger,
                progress=progress,
            )
        if arguments.report is not None:
            comparison = _comparison(ledger) if arguments.compare and ledger is not None else None
            arguments.report.write_text(_page(result, comparison), encoding="utf-8")
    output.show(result.summary, arguments.output, lambda _: _timeline(result))
    _complain(result)
    return NEGATIVE if any(result.summary[law] for law in VIOLATIONS) else DONE


def _make_room(target: Path | None) -> None:
    if target is None:
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", source=str(target)) from error


def _make_folder(target: Path | None) -> None:
    if target is None:
        return
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be created: {error.strerror or error}", source=str(target)) from error


@contextmanager
def _ledger_folder(arguments: argparse.Namespace) -> Iterator[Path | None]:
    """Yield the ledger's folder; a comparison needs a temporary one if `--ledger` is not given."""
    if arguments.ledger is not None or not arguments.compare:
        yield arguments.ledger
        return
    with tempfile.TemporaryDirectory(prefix="fleetwright-ledger-") as folder:
        yield Path(folder)


def _comparison(ledger: Path) -> Comparison | None:
    """Return the other lines of the page, None if the scenario had no decisions."""
    from cli.report.page import compared
    from cli.terminal.style import progress

    if not any(ledger.iterdir()):
        return None
    with progress("simulating the same pods with Karpenter's moves") as steps:
        return compared(str(ledger), steps)


@contextmanager
def _functions_kept_quiet() -> Iterator[None]:
    """Redirect the functions' log: standard output is reserved for the answer."""
    with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show the progress of a longer run if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    shown_at = time.monotonic()

    def show(moment: datetime, end: datetime) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= _SHOW_EVERY_SECONDS:
            shown_at = time.monotonic()
            sys.stderr.write(f"\r\x1b[Ksimulating: {moment:%Y-%m-%d %H:%M} of {end:%Y-%m-%d %H:%M}")
            sys.stderr.flush()

    yield show
    sys.stderr.write("\r\x1b[K")


def _page(result: Result, comparison: Comparison | None) -> str:
    from cli.report import PageContent, render

    events = [(datetime.fromisoformat(event.t), event.event, event.fields) for event in result.events]
    return render(PageContent(summary=result.summary, events=events, decisions=result.decisions, comparison=comparison))


def _timeline(result: Result) -> str:
    from cli.answers.simulation import simulation_table, timeline

    return f"{timeline(result.events)}\n\n{simulation_table(result.summary)}"


def _complain(result: Result) -> None:
    for text in result.warnings:
        warn(text)
    for violation in result.violations[:_VIOLATIONS_SHOWN]:
        write_stderr(f"violation: {violation.at:%Y-%m-%dT%H:%M:%SZ} {violation.law}: {violation.message}")
    if len(result.violations) > _VIOLATIONS_SHOWN:
        print(f"violation: and {len(result.violations) - _VIOLATIONS_SHOWN} more", file=sys.stderr)
    for failure in result.failures[:1]:
        heading = f"warning: {len(result.failures)} invocations failed; the first:"
        write_stderr(heading, *(f"| {line}" for line in failure.splitlines()))
