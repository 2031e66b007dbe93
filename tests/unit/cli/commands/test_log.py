"""The log on a wide and on a narrow terminal."""

from __future__ import annotations

from typing import Any

import pytest

from cli.commands.log import log_table
from cli.terminal import output

LINE: dict[str, Any] = {
    "id": "81c04f2b6d",
    "time": "2026-11-22T05:01:10Z",
    "what": "launch 13 nodes (4 x c6a.2xlarge, 9 x c6a.large) for 31 pods, and remove ip-10-0-0-4.ec2.internal",
    "reason": "Underutilized",
    "moves": 1,
    "hourly": -0.306,
    "state": "done in part: NodePoolBreakerOpen",
}


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_line_fits_the_terminal_and_keeps_everything(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns a decision was told in 18 of them, and the table was 90 wide."""
    monkeypatch.setattr(output, "line_width", lambda: width)
    told = log_table({"entries": [LINE], "unreadable": []})
    assert max(len(line) for line in told.splitlines()) <= max(width, 72)
    words = " ".join(told.split())
    for part in ("81c04f2b6d", "Underutilized", "-0.3060", "NodePoolBreakerOpen", "ip-10-0-0-4"):
        assert part in words


def test_one_decision_is_singular() -> None:
    """`1 decisions` read as if others were hidden."""
    told = log_table({"entries": [LINE], "unreadable": []})
    assert "1 decision: 0.0000 $/h launched, 0.3060 $/h saved with 1 moved pod" in told
