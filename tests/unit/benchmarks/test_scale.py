"""The benchmark of large clusters at a small scale: a fault in it would hide that functions need more memory."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.scale.__main__ import main
from benchmarks.scale.cluster import Cluster
from benchmarks.scale.server import World


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


def test_the_lists_of_namespaces_are_together_the_list_of_all_pods() -> None:
    """Otherwise, the measured reading of a divided list would be that of another cluster."""
    world = World(Cluster(nodes=20, pods=1_300, pending=3))
    whole = [msgspec.json.decode(gzip.decompress(world.get(f"/api/v1/pods?continue={page}")[1])) for page in range(3)]
    assert [page["metadata"].get("remainingItemCount") for page in whole] == [800, 300, None]
    pods = [pod for page in whole for pod in page["items"]]
    namespaces = sorted({pod["metadata"]["namespace"] for pod in pods})
    apart = [
        pod
        for name in namespaces
        for pod in msgspec.json.decode(gzip.decompress(world.get(f"/api/v1/namespaces/{name}/pods")[1]))["items"]
    ]
    assert len(namespaces) > 10
    assert sorted(pod["metadata"]["uid"] for pod in apart) == sorted(pod["metadata"]["uid"] for pod in pods)
