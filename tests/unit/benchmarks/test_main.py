"""`make bench` is red where a plan is wrong, or cheap because it places fewer pods."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as benchmarks
from tests.unit.benchmarks.test_measure import RESULT

GREEDY, IMPROVED = RESULT["greedy"], {**RESULT["improved"][0], "judged": {"count": 0, "violations": []}}
GOOD = {key: value for key, value in RESULT.items() if key != "peer"} | {"improved": [IMPROVED]}
WRONG = {"count": 1, "violations": ["room: default-0 needs more"]}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"improved": []}, 0),
        ({"greedy": {**GREEDY, "judged": WRONG}}, 1),
        ({"improved": [{**IMPROVED, "judged": WRONG}]}, 1),
        ({"improved": [{**IMPROVED, "unschedulable": 1000, "cost": 0.0}]}, 1),
        ({"improved": [{**IMPROVED, "cost": 9.0}]}, 1),
        (None, 1),
    ],
    ids=["right", "greedy", "greedy judged wrong", "judged wrong", "places nobody", "below the bound", "no answer"],
)
def test_its_exit_code(
    changes: dict[str, Any] | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = subprocess.CompletedProcess((), int(changes is None), json.dumps({**GOOD, **(changes or {})}), "it broke")
    monkeypatch.setattr("benchmarks.__main__.subprocess.run", lambda *_, **__: answer)
    said = ["--only", "diverse-100", "--no-peer", "--work", str(tmp_path), "--json", str(tmp_path / "bench.json")]
    monkeypatch.setattr("sys.argv", ["benchmarks", *said])
    assert benchmarks.main() == status
