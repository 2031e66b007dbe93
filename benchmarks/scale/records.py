"""What the functions have stored of the large cluster: a claim for each node, and a command."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from benchmarks.scale.names import NOW, POOLS, TYPE, ZONES, claim_name, instance_id, node_labels, node_name
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandRecord, Machine
from core.model.catalogue import Offering
from core.model.plan import Command, ObjectRef, PlannedClaim

COMMAND: Final = "consolidation"
_GIB: Final = 1024**3


def claim(index: int) -> ClaimRecord:
    """The claim of a node, with nothing left to do."""
    pool, zone = f"pool-{index % POOLS}", ZONES[index % len(ZONES)]
    labels = {key: value for key, value in node_labels(index).items() if key != "kubernetes.io/hostname"}
    offering = Offering(TYPE, zone, "on-demand", 768_000_000)
    amounts = {"cpu": 16000, "memory": 62 * _GIB * 1000, "pods": 234_000, "ephemeral-storage": 20 * _GIB * 1000}
    return ClaimRecord(
        name=claim_name(index),
        plan=PlannedClaim(
            name=claim_name(index),
            node_pool=pool,
            node_class=ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "default"),
            labels={"karpenter.sh/nodepool": pool},
            zones=(zone,),
            capacity_types=("on-demand",),
            resources=amounts,
            expire_after=timedelta(days=30),
        ),
        token=f"token-{index}",
        requested_at=NOW - timedelta(days=10),
        phase_since=NOW - timedelta(days=10),
        phase=ClaimPhase.INITIALIZED,
        version=4,
        reserved=amounts,
        machine=Machine(
            instance_id=instance_id(index),
            provider_id=f"aws:///{zone}/{instance_id(index)}",
            offering=offering,
            image_id="ami-0123456789abcdef0",
            labels=labels,
            capacity=amounts,
            allocatable=amounts,
        ),
        node_name=node_name(index),
        initialized_at=NOW - timedelta(days=10),
        last_pod_event_at=NOW - timedelta(hours=1),
    )


def command() -> CommandRecord:
    """A consolidation of one node that is due for validation."""
    consolidation = Command(
        reason="Underutilized", method="single", nodes=(node_name(20),), claims=(claim_name(20),), savings=1
    )
    decided = NOW - timedelta(minutes=1)
    return CommandRecord(
        id=COMMAND, command=consolidation, created_at=decided, verify_at=decided, phase_since=decided, version=1
    )
