"""SnapStart: sandboxes that start from one snapshot share whatever their modules have read, drawn or opened at import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from infra.packaging.start import ENVIRONMENT
from installation.wiring import FUNCTIONS
from tests.infra.conftest import ROOT, synthesize

PROBING: Final = """
import json, sys
root, *handlers = sys.argv[1:]
asked = []
def look(frame, event, called):
    if event == "c_call" and frame.f_code.co_filename.startswith(root):
        if called.__name__ in {"now", "utcnow", "today", "time", "monotonic", "urandom", "random", "getrandbits", "socket"}:
            asked.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {called.__name__}")
sys.setprofile(look)
for name in handlers:
    __import__(name)
sys.setprofile(None)
from lambdas.bootstrap import _Sandbox
print(json.dumps([*asked, *(["application"] if _Sandbox.current else [])]))
"""
"""Imports handlers, and prints each call of our own modules to a clock, to chance or to the network."""


def at_import(*modules: str, folder: Path = ROOT) -> list[str]:
    command = [sys.executable, "-c", PROBING, f"{folder}{os.sep}", *modules]
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(map(str, dict.fromkeys((folder, ROOT))))}
    ended = subprocess.run(  # noqa: S603 - fixed arguments
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return list(json.loads(ended.stdout))


def test_modules_keep_no_time_no_chance_and_no_connection() -> None:
    """Credentials, clients and all that is read of the cluster come with a sandbox's first event, after the snapshot."""
    assert at_import(*(spec.handler.rpartition(".")[0] for spec in FUNCTIONS)) == []


def test_a_module_that_keeps_the_time_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "keeping.py").write_text("import datetime\nSTARTED = datetime.datetime.now(datetime.UTC)\n")
    assert [call.rpartition(" ")[2] for call in at_import("keeping", folder=tmp_path)] == ["now"]


@pytest.mark.slow  # a synthesis of its own: `make lint-templates` runs it
@pytest.mark.parametrize("given", [True, "true"])
def test_each_function_of_the_wiring_starts_from_a_snapshot_where_that_is_asked(tmp_path: Path, given: object) -> None:
    assert snapshots(synthesize(tmp_path, {"snapStart": given})) == {spec.handler for spec in FUNCTIONS}


def test_no_function_does_by_default(templates: dict[str, dict[str, Any]]) -> None:
    """AWS bills a snapshot for as long as its version exists: $27 a month."""
    assert snapshots(templates) == set()


def snapshots(templates: dict[str, dict[str, Any]]) -> set[str]:
    resources = templates["fleetwright-fleetwright"]["Resources"].values()
    functions = [found["Properties"] for found in resources if found["Type"] == "AWS::Lambda::Function"]
    for function in (one for one in functions if "SnapStart" in one):
        assert function["Environment"]["Variables"]["AWS_ACCOUNT_ID_ENDPOINT_MODE"] == "disabled"
    return {f["Handler"] for f in functions if f.get("SnapStart") == {"ApplyOn": "PublishedVersions"}}
