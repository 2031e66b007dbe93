"""Pods that come together, and what a run decided about them."""

from __future__ import annotations

from typing import Any

from tests.fakes.lab import Lab, a_pending_pod


def a_burst(lab: Lab, pods: int = 4) -> None:
    """Pods that need a node each."""
    for number in range(pods):
        lab.kubernetes.put(a_pending_pod(f"p-{number}", cpu="3"))


def kinds_of(report: Any) -> list[str]:
    return [decision.kind for decision in report.decisions]
