"""Whether the audit log woke the planner: a launch in time proves nothing, for the schedule would have brought it, too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from installation.wiring import WAKE_UPS
from tests.e2e.functions.sandbox import Invocation

UNSCHEDULABLE: Final = "auditPodUnschedulable"
WAKE_UP: Final = "wakeUps"


def launched_when_woken(invocations: Iterable[Invocation]) -> set[str]:
    """The claims launched by runs of `provision` that its queue started, once the audit log had told of a waiting pod."""
    runs = [run for run in invocations if isinstance(run.response, Mapping)]
    told = [
        run.started_at
        for run in runs
        if run.function == "watch_audit_log" and run.response.get(UNSCHEDULABLE) and run.response.get(WAKE_UP)
    ]
    first = min(told, default=math.inf)
    woken = [run for run in runs if (run.function, run.trigger) == ("provision", f"queue:{WAKE_UPS.name}")]
    return {name for run in woken if run.started_at >= first for name in _launched(run.response)}


def _launched(response: Mapping[str, Any]) -> list[str]:
    decisions = response.get("decisions") or ()
    return [str(decision["subject"]) for decision in decisions if decision["kind"] == "launch"]
