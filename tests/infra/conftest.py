"""One synthesis for all tests: starting Node and loading the library is what takes the time."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from app import add_clusters

ROOT = Path(__file__).parents[2]


def synthesize_as_users_do(target: Path, root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """Run a tree's `python app.py` in a process of its own, offline; stack name → template."""
    environment = {**os.environ, "CDK_OUTDIR": str(target), "TEMPLATES_ONLY": "1"}
    for variable in ("CDK_DEFAULT_ACCOUNT", "CDK_DEFAULT_REGION"):
        environment.pop(variable, None)
    subprocess.run([sys.executable, "app.py"], cwd=root, env=environment, check=True, capture_output=True, text=True)
    return read(target)


def synthesize(target: Path, context: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The same in this process, where Node is started once for all tests; stack name → template."""
    app = cdk.App(outdir=str(target), context=dict(context))
    add_clusters(app, account=None, region=None, is_packaged=False)
    app.synth()
    return read(target)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Stack name → template, of a synthesis."""
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text())
        for path in folder.glob("*.template.json")
    }


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The first of xdist's workers synthesizes, the others read its result."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    made = shared / "cdk"
    with (shared / "cdk.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            synthesize_as_users_do(shared / "cdk-in-the-making")
            (shared / "cdk-in-the-making").rename(made)
    return read(made)
