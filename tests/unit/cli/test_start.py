"""What the program loads before it answers: seconds depend on the machine, modules do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from cli.cache.store import VARIABLE

ROOT: Final = Path(__file__).parents[3]
LOADED: Final = """
import sys
from cli.__main__ import main
code = main(sys.argv[1:])
print(code, *sorted(sys.modules), file=sys.stderr)
"""
DATACLASSES: Final = """
import dataclasses, sys
from cli.__main__ import main
main(sys.argv[1:])
ours = [module for name, module in sys.modules.items() if name.startswith(("core.", "cli."))]
classes = {one for module in ours for one in vars(module).values() if dataclasses.is_dataclass(one) and isinstance(one, type)}
print(*sorted(one.__name__ for one in classes if one.__module__.startswith(("core.", "cli."))), file=sys.stderr)
"""
TASKS: Final = Path("/proc/self/task")
THREADS: Final = """
import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "2"
from cli.__main__ import main
main(sys.argv[1:])
print("numpy" in sys.modules, len(os.listdir("/proc/self/task")), file=sys.stderr)
"""
PLAN: Final = ("plan", "-f", "examples/pools", "-f", "examples/workloads", "--now", "2026-11-20T00:00:00Z")
SCHEMAS: Final = ("pydantic", "core.api.translation")
SOLVER: Final = ("numpy", "highspy", "scipy")
AWS: Final = ("boto3", "botocore", "moto", "urllib3", "requests")
OURS_AND_LIBRARIES: Final = ("core", "msgspec", "yaml")

OURS: Final = ("core", "installation", "adapters", "lambdas", "simulator", "cli")
MODULES_MAX: Final = 238
"""Of our own modules, what a plan needs; a fifth of a millisecond each."""
SET_AT_CONSTRUCTION: Final = ["GreedyScheduler"]
"""Classes with attributes that they compute from others, which structs take as arguments."""


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("help",)])
def test_the_help_loads_nothing_that_answers(arguments: tuple[str, ...]) -> None:
    loaded = _loaded(arguments)
    answering = {name for name in loaded if name.partition(".")[0] in OURS_AND_LIBRARIES} - {"core"}
    assert answering == {"core.errors", "core.version"}
    assert not loaded & {"difflib", "traceback", "importlib.metadata"}


def test_a_second_plan_reads_objects_without_their_models(tmp_path: Path) -> None:
    """What is loaded takes most of the time in which a small plan is printed (ADR 184)."""
    _loaded((*PLAN, "--time-budget", "0"), tmp_path)
    loaded = _loaded((*PLAN, "--time-budget", "0"), tmp_path)
    assert not loaded & {*SCHEMAS, *AWS}
    assert "core.scheduling.planner" in loaded
    assert len([name for name in loaded if name.partition(".")[0] in OURS]) <= MODULES_MAX


@pytest.mark.skipif(not TASKS.exists(), reason="the system does not list a process's threads")
def test_a_plan_takes_one_thread() -> None:
    """Threads of the array library wait for each other, and sum in an order that depends on the number of processors."""
    answer = subprocess.run(  # noqa: S603 - the program and its arguments are ours
        [sys.executable, "-c", THREADS, *PLAN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stderr.splitlines()[-1] == "True 1"


def test_a_plan_loads_no_other_dataclasses() -> None:
    """A dataclass compiles its methods whenever it is loaded (ADR 217)."""
    answer = subprocess.run(  # noqa: S603 - the program and its arguments are ours
        [sys.executable, "-c", DATACLASSES, *PLAN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stderr.splitlines()[-1].split() == SET_AT_CONSTRUCTION


def test_a_code_is_explained_without_models_and_solver(tmp_path: Path) -> None:
    loaded = _loaded(("explain", "LimitReached"), tmp_path)
    assert not loaded & {*SCHEMAS, *SOLVER, *AWS}


def _loaded(arguments: tuple[str, ...], folder: Path | None = None) -> set[str]:
    environment = {**os.environ, VARIABLE: "" if folder is None else str(folder)}
    command = [sys.executable, "-c", LOADED, *arguments]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return set(answer.stderr.splitlines()[-1].split()[1:])
