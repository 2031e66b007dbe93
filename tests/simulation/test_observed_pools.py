"""A NodePool that is only observed: what would be done is recorded, and nothing is done until the annotation goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from core import labels
from simulator.run import Result, run
from tests.simulation.worlds import assert_lawful, deployment, happened, node_pool, write

FROM, TO = "2026-11-20T00:08:00", "2026-11-20T00:40:00"
ACTS = ("instanceLaunched", "instanceTerminated", "nodeTainted", "podEvicted", "nodeDeleted")


def pool(*, is_observed: bool, **more: Any) -> dict[str, Any]:
    """Its nodes expire after twenty minutes."""
    found = node_pool(**more)
    found["spec"]["template"]["spec"]["expireAfter"] = "20m"
    if is_observed:
        found["metadata"]["annotations"] = {labels.MODE: labels.OBSERVE}
    return found


def acts(result: Result, since: str, until: str) -> list[tuple[str, str]]:
    return [(event.t, event.event) for name in ACTS for event in happened(result, name) if since <= event.t < until]


def logged(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["log", "--ledger", str(folder / "ledger"), "-o", "json"]) == 0
    entries: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["entries"]
    return [found for found in entries if found["state"] == "observed"]


def test_nothing_is_done_for_an_observed_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods come and go, an image changes, nodes expire: all of it is told and none done, until the annotation goes."""
    steps = [
        {"at": "8m", "apply": [pool(is_observed=True)]},
        {"at": "12m", "scale": {"kind": "Deployment", "name": "web", "replicas": 2}},
        {"at": "16m", "ami": {"alias": "al2023", "id": "ami-0new"}},
        {"at": "18m", "apply": [deployment(3, name="late", cpu="14")]},
        {"at": "40m", "apply": [pool(is_observed=False)]},
    ]
    scenario = write(tmp_path, pool(is_observed=False), deployment(20, cpu="2"), steps=steps, duration="46m")
    result = run(scenario, ledger=tmp_path / "ledger")
    assert_lawful(result)
    assert acts(result, "2026-11-20T00:00:00Z", FROM)
    assert acts(result, FROM, TO) == []
    assert {event for _, event in acts(result, TO, "2026-11-20T01:00:00Z")} == set(ACTS)
    observed = logged(tmp_path, capsys)
    assert {found["function"] for found in observed} == {"provision", "disrupt"}
    assert all(found["what"].startswith("only observed: ") for found in observed)
    assert all((found["hourly"], found["moves"]) == (0, 0) for found in observed)
    assert all(FROM <= found["time"] <= TO for found in observed)
    assert len({found["what"] for found in observed}) == len(observed)
    assert main(["replay", "--ledger", str(tmp_path / "ledger")]) == 0


def test_pods_get_nodes_of_the_pool_beside_it(tmp_path: Path) -> None:
    """Whatever the observed pool would do: pods do not wait for it."""
    cheaper = pool(is_observed=True, weight=50)
    cheaper["metadata"]["name"] = "tried"
    result = run(write(tmp_path, pool(is_observed=False), cheaper, deployment(4), steps=[], duration="6m"))
    assert_lawful(result)
    launched = happened(result, "instanceLaunched")
    assert {event.fields["tags"]["karpenter.sh/nodepool"] for event in launched} == {"default"}
    assert result.summary["podsPending"] == 0
