"""One synthesis for all tests: starting Node and loading the library is what takes the time."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def synthesize(target: Path, *context: str) -> dict[str, dict[str, Any]]:
    """Run `python app.py` as a user would, offline; stack name → template."""
    environment = {
        **os.environ,
        "CDK_OUTDIR": str(target),
        "TEMPLATES_ONLY": "1",
        "CDK_CONTEXT_JSON": json.dumps(dict(c.split("=") for c in context)),
    }
    for variable in ("CDK_DEFAULT_ACCOUNT", "CDK_DEFAULT_REGION"):
        environment.pop(variable, None)
    subprocess.run([sys.executable, "app.py"], cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return read(target)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Stack name → template, of a synthesis."""
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text())
        for path in folder.glob("*.template.json")
    }


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Whichever of xdist's workers comes first synthesizes, the others read what it made."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    made = shared / "cdk"
    with (shared / "cdk.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            synthesize(shared / "cdk-in-the-making")
            (shared / "cdk-in-the-making").rename(made)
    return read(made)
