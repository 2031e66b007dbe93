"""`fleetwright what-if`: which rules the second simulation gets, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from core.counterfactual.simulation import RecordedPeriod, SimulationRules
from tests.builders import NOW
from tests.unit.api.objects import NODE_CLASS, NODE_POOL, changed
from tests.unit.cli.answers.test_periods import RECORDED, THEN
from tests.unit.cli.conftest import CATALOG
from tests.unit.cli.ledger.stored import MemoryLedger
from tests.unit.cli.ledger.test_entries import WORLD, disrupted

Rules = list[SimulationRules]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Rules:
    """The rules of the simulations, in order."""
    seen: Rules = []

    def simulate(
        snapshots: Iterable[Any], rules: Sequence[SimulationRules], until: object
    ) -> tuple[RecordedPeriod, Any]:
        assert [snapshot.now for snapshot in snapshots] == [NOW]
        assert until == NOW
        seen.extend(rules)
        return RECORDED, (THEN, THEN)

    monkeypatch.setattr("cli.ledger.entries.opened_ledger", lambda _: disrupted(MemoryLedger()))
    monkeypatch.setattr("core.counterfactual.simulation.simulated_periods", simulate)
    return seen


@pytest.mark.parametrize(
    ("policy", "consolidates", "karpenter_alone"), [("karpenter", True, True), ("none", False, False)]
)
def test_a_policy_is_that_of_the_second_simulation(
    policy: str, consolidates: bool, karpenter_alone: bool, simulated: Rules, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", "--ledger", "x", "--policy", policy, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "WhatIf"
    before, after = simulated
    assert before == SimulationRules()
    assert (after.consolidates, after.karpenter_moves_only) == (consolidates, karpenter_alone)
    assert after.change(WORLD) == WORLD


def test_manifests_and_prices_replace_the_recorded_ones(
    simulated: Rules, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = changed(changed(NODE_POOL, "metadata.name", WORLD.node_pools[0].name), "spec.weight", 7)
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([pool, NODE_CLASS]))
    (tmp_path / "c.json").write_text(json.dumps(CATALOG))
    files = ["-f", str(tmp_path / "a.yaml"), "--catalog", str(tmp_path / "c.json")]
    assert main(["what-if", "--ledger", "x", *files, "-o", "markdown"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("### Fleetwright: what this would have done")
    assert "ignored: EC2NodeClass; only NodePools, NodeOverlays and PodDisruptionBudgets count" in printed.err
    after = simulated[1].change(WORLD)
    assert [found.weight for found in after.node_pools] == [7]
    assert [found.name for found in after.catalogue.default] == ["m.small"]
    assert (simulated[1].consolidates, simulated[1].karpenter_moves_only) == (True, False)


@pytest.mark.parametrize(("wait", "is_told"), [("30s", True), ("10m", False), ("Never", False), (None, False)])
@pytest.mark.usefixtures("simulated")
def test_a_changed_setting_that_is_shorter_than_a_tick_is_told(
    wait: str | None, is_told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """None: as recorded."""
    recorded = WORLD.node_pools[0]
    before = f"{(recorded.disruption.consolidate_after or timedelta(0)) // timedelta(seconds=1)}s"
    pool = changed(NODE_POOL, "metadata.name", recorded.name)
    pool = changed(pool, "spec.disruption.consolidateAfter", wait or before)
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(pool))
    assert main(["what-if", "--ledger", "x", "-f", str(tmp_path / "a.yaml"), "-o", "json"]) == 0
    told = "consolidateAfter of 30 s is shorter than the 5 minutes between two decisions" in capsys.readouterr().err
    assert told == is_told


@pytest.mark.parametrize(
    ("objects", "problem"),
    [
        (None, "nothing is changed"),
        ([NODE_CLASS], "there is no NodePool, NodeOverlay or PodDisruptionBudget in the files"),
        ([changed(NODE_POOL, "spec.weight", 0)], "must be at least 1"),
    ],
)
def test_what_changes_nothing_or_cannot_be_read_is_refused(
    objects: list[Any] | None, problem: str, simulated: Rules, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all(objects or []))
    files = ["-f", str(tmp_path / "a.yaml")] if objects is not None else []
    assert main(["what-if", "--ledger", "x", *files]) == 2
    assert problem in capsys.readouterr().err
    assert simulated == []
