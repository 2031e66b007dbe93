"""Minutes until savings have paid for a move."""

from __future__ import annotations

import pytest

from core.disruption.consolidation.payback import payback_minutes
from core.model.node_claim import ObjectRef
from core.model.plan import Command, Move, PlannedClaim
from core.reasons.termination import TerminationReason

HALF = PlannedClaim(name="new", node_pool="default", node_class=ObjectRef("", "", "default"), price=500)
MOVES = (Move("default/a", "new"),)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"savings": 500, "replacements": (HALF,), "moves": MOVES}, 5),  # 3 minutes of 500 and one of 1,000, over 500
        ({"savings": 501, "replacements": (HALF,), "moves": MOVES}, 5),  # rounded up
        ({"savings": 500, "moves": MOVES}, 1),
        ({"savings": 500, "reason": TerminationReason.EMPTY}, 0),
        ({"savings": 0, "replacements": (HALF,), "moves": MOVES}, None),
        ({"savings": 500, "reason": TerminationReason.DRIFTED, "moves": MOVES}, None),
    ],
    ids=["replaced", "rounded up", "deleted", "empty", "nothing saved", "drifted"],
)
def test_double_running_and_restarts_are_paid_from_savings(changes: dict[str, object], expected: int | None) -> None:
    fields = {
        "reason": TerminationReason.UNDERUTILIZED,
        "method": "repack",
        "nodes": ("n",),
        "claims": ("c",),
        **changes,
    }
    assert payback_minutes(Command(**fields)) == expected  # type: ignore[arg-type]
