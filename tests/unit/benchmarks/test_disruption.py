"""The benchmark of disruption reports correct figures."""

from __future__ import annotations

from pathlib import Path

from benchmarks.disruption.__main__ import table
from benchmarks.disruption.fragmented import fragmented
from benchmarks.disruption.measuring import measured
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
    assert table([{"cluster": "small", **found}]).count("balanced") == 1
