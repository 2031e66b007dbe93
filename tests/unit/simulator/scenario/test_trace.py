"""The openb trace: which pods appear when, asking for what."""

from __future__ import annotations

import gzip
from datetime import timedelta
from pathlib import Path

import pytest

from core.errors import InvalidInputError
from simulator.scenario.form import Trace
from simulator.scenario.trace import read_trace

HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
ROWS = (
    "early,1000,512,0,0,,LS,Running,99,500,100\n"
    "first,16500,51200,0,0,,LS,Running,100,130,101\n"
    "share,1000,1024,1,460,T4,BE,Running,160,220,161\n"
    "whole,1000,1024,8,1000,,BE,Failed,200,240,\n"
    "late,1000,512,0,0,,LS,Running,201,500,202\n"
)


def test_pods_of_the_window_appear_and_vanish_by_its_clock(tmp_path: Path) -> None:
    """If this failed, a day of the trace would play at the wrong hour or with other pods."""
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((HEAD + ROWS).encode()))
    pods = read_trace(tmp_path / "t.csv.gz", Trace(format="openb", file="t", since=100, until=200, namespace="n"))
    assert [p.manifest["metadata"]["name"] for p in pods] == ["first", "share", "whole"]
    assert [(p.appears, p.vanishes) for p in pods] == [
        (timedelta(seconds=a), timedelta(seconds=b)) for a, b in ((0, 30), (60, 120), (100, 140))
    ]
    assert pods[0].manifest["metadata"]["labels"] == {"app": "openb"}


def test_a_share_of_a_gpu_counts_as_one(tmp_path: Path) -> None:
    """If this failed, pods that share a GPU would need no GPU node at all."""
    (tmp_path / "t.csv").write_text(HEAD + ROWS)
    pods = read_trace(tmp_path / "t.csv", Trace(format="openb", file="t", since=100, until=200))
    requests = [p.manifest["spec"]["containers"][0]["resources"]["requests"] for p in pods]
    assert requests[0] == {"cpu": "16500m", "memory": "51200Mi"}
    assert [found.get("nvidia.com/gpu") for found in requests] == [None, "1", "8"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("a,b\n1,2\n", "has no column name"), (HEAD + "x,many,1,0,0,,,,1,2,3\n", "line 2")],
)
def test_a_broken_trace_names_the_place(tmp_path: Path, text: str, said: str) -> None:
    """If this failed, a wrong file would play as an empty cluster."""
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InvalidInputError, match=said):
        read_trace(tmp_path / "t.csv", Trace(format="openb", file="t"))
