"""Laws of where consolidation of small fragmented fleets ends, with moves that cost nothing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
import pytest

from benchmarks.disruption.fragmented import fragmented
from benchmarks.files import written
from benchmarks.measure import decoded
from benchmarks.workloads.ec2 import ec2_catalogue
from core.disruption import disrupt
from core.disruption.command import carried_out
from core.disruption.disruption_pass import fleet_price
from core.disruption.target.stored import after_commands
from core.model.snapshot import Snapshot

_ROUNDS_MAX: Final = 40

_WAYS_APART: Final = 1.1
"""One target, whose pods move once, may end this much above several targets one after the other."""


def fleet(nodes: int, seed: int, folder: Path, **options: object) -> Snapshot:
    """A fragmented fleet; a tenth of its nodes may go at a time."""
    snapshot = decoded(written(fragmented(nodes, seed, ec2_catalogue(folder)), folder / "cluster"))
    gates = msgspec.structs.replace(snapshot.options.feature_gates, spot_to_spot_consolidation=True)
    changed = msgspec.structs.replace(snapshot.options, feature_gates=gates, moves="thorough", **options)
    return msgspec.structs.replace(snapshot, options=changed)


def end_within_budgets(snapshot: Snapshot) -> int:
    """The fleet's price when no decision has a command any more; an hour passes between two."""
    for _ in range(_ROUNDS_MAX):
        plan = disrupt(snapshot, proves=False)
        if not plan.commands:
            return fleet_price(snapshot)
        rest = plan.target and after_commands(plan.target, plan.commands, snapshot.pods, {})
        after = carried_out(snapshot, *plan.commands)
        snapshot = msgspec.structs.replace(after, stored_target=rest, now=snapshot.now + timedelta(hours=1))
    raise AssertionError("no end")


@pytest.mark.parametrize(
    ("nodes", "seed"),
    [
        (8, 3),  # nodes that could be deleted stayed: the target could not begin, and nothing else was tried
        (8, 4),  # with budgets ignored, the first wave did not pay, and no wave began
        pytest.param(
            15, 5, marks=pytest.mark.slow
        ),  # a lone spot node had too few types of its new node to choose from
    ],
)
def test_consolidation_ends_at_most_where_karpenters_methods_do(nodes: int, seed: int, tmp_path: Path) -> None:
    within = end_within_budgets(fleet(nodes, seed, tmp_path))
    whole = disrupt(fleet(nodes, seed, tmp_path, ignore_budgets=True), proves=False).cost.after
    peer = fleet(nodes, seed, tmp_path, ignore_budgets=True, karpenter_moves_only=True)
    assert whole <= disrupt(peer, proves=False).cost.after
    assert within <= end_within_budgets(fleet(nodes, seed, tmp_path, karpenter_moves_only=True))
    assert whole <= within * _WAYS_APART
