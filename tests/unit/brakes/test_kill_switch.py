"""The text of the kill switch parameter."""

from __future__ import annotations

import pytest

from core.brakes.brake import BrakeKind
from core.brakes.kill_switch import kill_switch


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("run", None),
        (" RUN\n", None),
        ("pause-disruption", BrakeKind.PAUSE),
        ("stop", BrakeKind.STOP),
        ("", BrakeKind.UNREADABLE),
        ("halt", BrakeKind.UNREADABLE),
    ],
)
def test_the_kill_switch_says_run_or_holds_back(text: str, kind: BrakeKind | None) -> None:
    brake = kill_switch(text, "/fleetwright/prod/mode")
    assert (brake.kind if brake else None) == kind
