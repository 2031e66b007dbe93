"""The modules that each function loads before its controller exists: the cost of a cold start."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Final

import pytest

from infra.packaging.start import CONTROLLERS, ENVIRONMENT
from installation.wiring import BY_NAME, FUNCTIONS
from tests.infra.conftest import ROOT

LOADED: Final = """
import sys
from importlib import import_module
function, controller = sys.argv[1:]
import_module(f"lambdas.handlers.{function}")
getattr(import_module("lambdas.bootstrap").application(), controller)
print(*sys.modules)
"""

SOLVER: Final = ("numpy", "highspy")
SCHEMAS: Final = ("pydantic", "core.api.schemas")
"""The models of users' objects: the first run that reads a NodePool loads them."""

PLANNER: Final = ("core.scheduling.planner", "core.disruption.decision", "core.packing.optimize")
CANDIDATES: Final = ("core.disruption.candidate", "fractions")
"""What only functions that decide about disruption need."""

NO_CLUSTER: Final = ("adapters.observation.observer", "lambdas.controllers.node_lifecycle")
"""Modules that only functions with access to the cluster need."""

LIGHT: Final = ("watch_audit_log", "refresh_catalogue")


def test_the_benchmark_knows_every_function() -> None:
    assert set(CONTROLLERS) == set(BY_NAME)


@cache
def loaded_by(function: str) -> frozenset[str]:
    """Return the modules that a cold start of the function loads."""
    command = [sys.executable, "-c", LOADED, function, CONTROLLERS[function]]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    return frozenset(answer.stdout.split())


@pytest.mark.parametrize("function", [spec.name for spec in FUNCTIONS])
def test_a_function_starts_without_what_it_may_not_need(function: str) -> None:
    """One import too many delays every pending pod, and no other test notices it."""
    loaded = loaded_by(function)
    forbidden = (*SOLVER, *SCHEMAS)
    if not BY_NAME[function].needs_solver:
        forbidden += (*PLANNER, *CANDIDATES)
    if function in LIGHT:
        forbidden += NO_CLUSTER
    assert [name for name in forbidden if name in loaded] == []
