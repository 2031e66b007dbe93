"""Judges bindings: no pod is bound where the scheduler would not have bound it, or before a kubelet accepts it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from simulator.checkers.ledger import Ledger
from simulator.record import Event


class BindingJudge:
    """Counts bindings against a rule, which the embedded API server reports as `bindingAgainstRule`."""

    name = "bindingViolations"

    def __init__(self, _: Ledger, report: Callable[[str], None]) -> None:
        self._report = report

    def see(self, _: datetime, event: Event) -> None:
        """Judge one event."""
        if event.event == "bindingAgainstRule":
            fields = event.fields
            self._report(f"{fields['pod']} was bound to {fields['node']}: {fields['rule']}")
