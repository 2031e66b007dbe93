"""Claims and commands for the tests of their next steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from core import labels
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandPhase, CommandRecord, Deletion, Machine
from core.model.catalogue import Offering
from core.model.plan import Command, PlannedClaim
from core.model.snapshot import Node
from core.model.values.taints import DISRUPTED, UNREGISTERED
from tests.builders import CLASS_REF, NOW

PROVIDER_ID = "aws:///us-east-1a/i-1"


def a_plan(**changes: Any) -> PlannedClaim:
    """A claim of the default pool with a team label."""
    fields = {"labels": {labels.NODEPOOL: "default", "team": "a"}, "resources": {"cpu": 1000}, "pods": ("default/p",)}
    return PlannedClaim(**{"name": "c", "node_pool": "default", "node_class": CLASS_REF, **fields, **changes})


def a_record(
    phase: ClaimPhase = ClaimPhase.INITIALIZED, *, age: timedelta = timedelta(0), **changes: Any
) -> ClaimRecord:
    """A claim that has been in its phase for `age`; launched ones have a machine."""
    machine = None
    if phase is not ClaimPhase.REQUESTED:
        offering = Offering("m5.large", "us-east-1a", labels.SPOT, 1)
        machine_labels = {labels.INSTANCE_TYPE: "m5.large", "team": "of the machine"}
        machine = Machine(instance_id="i-1", provider_id=PROVIDER_ID, offering=offering, labels=machine_labels)
    since = NOW - age
    fields = {
        "plan": a_plan(),
        "token": "t",
        "requested_at": since,
        "phase_since": since,
        "machine": machine,
        "node_name": "n" if phase in (ClaimPhase.REGISTERED, ClaimPhase.INITIALIZED) else "",
    }
    return ClaimRecord(name="c", phase=phase, **{**fields, **changes})


def a_leaving(*, tainted: timedelta | None = timedelta(minutes=1), **changes: Any) -> ClaimRecord:
    """A claim whose node was tainted this long ago, and no earlier than this was requested; deletion fields by keyword."""
    tainted_at = None if tainted is None else NOW - tainted
    asked_at = min(NOW - timedelta(minutes=1), tainted_at or NOW)
    fields = {"reason": "Empty", "asked_at": asked_at, "tainted_at": tainted_at}
    return a_record(deletion=Deletion(**{**fields, **changes}), age=timedelta(hours=1))


def a_node(*, booting: bool = False, leaving: bool = False, **changes: Any) -> Node:
    """The claim's node, ready."""
    taints = (UNREGISTERED,) if booting else (DISRUPTED,) if leaving else ()
    balancer_labels = {labels.EXCLUDE_FROM_BALANCERS: "karpenter"} if leaving else {}
    fields = {
        "provider_id": PROVIDER_ID,
        "is_ready": True,
        "taints": taints,
        "labels": balancer_labels,
        "allocatable": {"cpu": 2000},
    }
    return Node(**{"name": "n", **fields, **changes})


def a_command(
    phase: CommandPhase = CommandPhase.VERIFYING, *, age: timedelta = timedelta(0), **changes: Any
) -> CommandRecord:
    """A command that removes claim `c`, decided `age` ago, due for validation after 15 seconds."""
    command = Command(reason="Empty", method="emptiness", nodes=("n",), claims=("c",))
    created = NOW - age
    fields = {
        "command": command,
        "created_at": created,
        "phase_since": created,
        "verify_at": created + timedelta(seconds=15),
    }
    return CommandRecord(id="x", phase=phase, **{**fields, **changes})
