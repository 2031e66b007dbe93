"""One node that works, and what tests of sweeps ask about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from adapters.run_report import RunReport
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import resources
from lambdas.controllers.sweeps.sweep import ReconcileRound, Seen
from tests.fakes.lab import Lab, a_pending_pod

NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def a_working_node(*, protected: bool = False) -> Lab:
    """One node with one pod on it."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    if protected:
        lab.kubernetes.protected.add("default/p")
    return lab


def finalizers(lab: Lab) -> list[str]:
    (name,) = lab.kubernetes.names(resources.NODES)
    finalizers: list[str] = lab.kubernetes.raw(resources.NODES, name)["metadata"].get("finalizers", [])
    return finalizers


def event_objects(lab: Lab, reason: str) -> list[tuple[str, str]]:
    """Kind and name of the objects of events with that reason."""
    events = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    return sorted((e["involvedObject"]["kind"], e["involvedObject"]["name"]) for e in events if e["reason"] == reason)


def amend(lab: Lab, **changes: Any) -> ClaimRecord:
    """Change the row of the one claim."""
    record = lab.claim
    return lab.app.adapters.stores.claims.change(record, msgspec.structs.replace(record, **changes))


def a_round(lab: Lab) -> ReconcileRound:
    """Observe now."""
    seen = Seen(instances=lab.cloud.instances(), view=lab.app.shared.observer.observe())
    return ReconcileRound(seen, RunReport(), lab.clock.now() + timedelta(minutes=2), lab.clock)


def sweep(lab: Lab, name: str, round_: ReconcileRound | None = None) -> RunReport:
    """Run one sweep alone."""
    current_round = round_ or a_round(lab)
    next(sweep for sweep in lab.app.sweeps if sweep.name == name).run(current_round)
    return current_round.report
