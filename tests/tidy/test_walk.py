"""One decision enters few files: whoever follows a pod reads them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from installation.wiring import BY_NAME
from tests import walk


def test_a_pod_enters_few_files(tmp_path: Path) -> None:
    files = walk.pod_route(tmp_path)
    assert "core/scheduling/planner.py" in files
    assert len(files) <= walk.FILES_MAX["provision"], files


def test_a_consolidation_enters_few_files(tmp_path: Path) -> None:
    files = walk.consolidation_route(tmp_path)
    assert {"core/disruption/decision.py", "core/lifecycle/draining.py"} <= set(files)
    assert len(files) <= walk.FILES_MAX["consolidation"], files


def test_a_plan_enters_few_files(tmp_path: Path) -> None:
    files = walk.plan_route(tmp_path)
    assert "core/scheduling/planner.py" in files
    assert len(files) <= walk.FILES_MAX["plan"], files


@pytest.mark.parametrize("function", sorted(BY_NAME))
def test_a_start_loads_few_files(function: str) -> None:
    files = walk.start_modules(function)
    assert f"lambdas.handlers.{function}" in files
    assert len(files) <= walk.START_FILES_MAX, files


def test_chains_of_imports_are_short() -> None:
    """A long chain makes each of its files wait for all files below."""
    chain = walk.longest_chain(walk.imports())
    assert len(chain) <= walk.CHAIN_MAX, chain
