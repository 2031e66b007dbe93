"""The benchmark of disruption reports correct figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.disruption.fragmented import fragmented
from benchmarks.disruption.measuring import measured
from benchmarks.disruption.page import figures
from benchmarks.files import written
from benchmarks.measure import decoded
from benchmarks.workloads.ec2 import ec2_catalogue


def test_a_small_cluster_ends_between_its_bound_and_its_old_cost(tmp_path: Path) -> None:
    snapshot = decoded(written(fragmented(12, 1, ec2_catalogue(tmp_path)), tmp_path / "cluster"))
    assert len(snapshot.nodes) == 12
    found = measured(snapshot, ("balanced",))
    way = found["ways"]["balanced"]
    assert found["bound"] <= way["after"] < found["before"]
    assert way["mostMovesOfAPod"] == 1
    assert way["moves"] > 0
    assert way["untouchable"] <= way["program"]
    said = figures(document({"cluster": "small", "load": 0.5, **found}))
    assert said.count("balanced") == 1


def document(*clusters: dict[str, Any]) -> dict[str, Any]:
    return {"command": "bench", "commit": "abc", "cpus": 2, "peer": "v1.14.1", "clusters": list(clusters)}


def test_each_way_is_compared_with_karpenter_under_the_same_gate() -> None:
    way = {
        "after": 10.0,
        "ofBound": 1.25,
        "moves": 80,
        "mostMovesOfAPod": 1,
        "waves": 3,
        "untouchable": 2.0,
        "program": 9.0,
    }
    peer = {"moves": 100, "mostMovesOfAPod": 4, "rounds": 7, "cpuSeconds": 61.0, "ended": True}
    cluster = {"cluster": "c", "load": 1.0, "before": 40.0, "bound": 8.0, "ways": {"balanced": way, "strict": way}}
    peers = {"open": {**peer, "after": 12.5}, "strict": {**peer, "after": 20.0, "ended": False}}
    rows = figures(document({**cluster, "karpenter": peers})).splitlines()
    assert "| `c` | 40.00 | 8.00 | 2.00 (25%) |" in rows
    assert "| `c` | balanced | 10.00 | 1.250 | 1.125 | 0.800 | 80 | 0.800 | 1 | 3 |  |  |" in rows
    assert "| `c` | strict | 10.00 | 1.250 | 1.125 | 0.500 | 80 | 0.800 | 1 | 3 |  |  |" in rows
    assert "| `c` | Karpenter, open (61 s) | 12.50 | 1.562 |  | 1 | 100 | 1 | 4 | 7 |  |  |" in rows
    assert "| `c` | Karpenter, strict (61 s, stopped) | 20.00 | 2.500 |  | 1 | 100 | 1 | 4 | 7 |  |  |" in rows
