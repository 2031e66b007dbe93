"""The benchmark of large clusters at a small scale: a fault in it would hide that functions need more memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.scale.__main__ import main


def test_functions_are_measured_beside_a_served_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = tmp_path / "scale.json"
    options = ["--nodes=600", "--pods=1200", "--pending=2", "--only=execute,reconcile", f"--json={result}"]
    monkeypatch.setattr(sys, "argv", ["scale", *options])
    assert main() == 0
    found = json.loads(result.read_text())["functions"]
    asked = found["execute"]["requestsOfAllRuns"]
    assert (asked["get nodes"], asked["list nodes"], asked["list pods"]) == (10, 2, 3)  # only the second run lists
    assert found["reconcile"]["counts"]["claims"] == found["reconcile"]["counts"]["instances"] == 600
    assert all(0 < result["share"] < 1 for result in found.values())
