"""One observation of the cluster, with our table's records."""

from __future__ import annotations

import msgspec

from adapters.ports import JsonObject
from adapters.store import UnreadableRow, UnreadableRowError
from core.launch.denials.denial import LaunchDenial
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.manifests.assemble import ObjectProblem
from core.manifests.wire.buffer import WireCapacityBuffer
from core.model.snapshot import Snapshot


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an observation.

    Attributes:
        claims: Claims by name, in that order.
        node_pools, node_classes: The manifests behind the snapshot's, by name.
        buffers: The CapacityBuffers as decoded from the wire, if their feature gate is on.
        displaced: Name of a leaving claim whose drain may wait for replacements → keys of the pods that must move from it.
        pod_events: Claims on whose node a pod arrived or left since the last stored observation: before and after.
        denials: The denials that currently prevent launches.
        problems: Objects that could not be used, or only with a warning.
        unreadable_rows: Rows that are left out of the claims, the commands and all else that was read from the table.
    """

    snapshot: Snapshot
    claims: dict[str, ClaimRecord]
    commands: tuple[CommandRecord, ...]
    node_pools: dict[str, JsonObject]
    node_classes: dict[str, JsonObject]
    buffers: tuple[WireCapacityBuffer, ...] = ()
    displaced: dict[str, tuple[str, ...]] = {}
    pod_events: tuple[tuple[ClaimRecord, ClaimRecord], ...] = ()
    denials: tuple[LaunchDenial, ...] = ()
    problems: tuple[ObjectProblem, ...] = ()
    unreadable_rows: tuple[UnreadableRow, ...] = ()

    def require_commands(self) -> None:
        """Raise UnreadableRowError if the row of a command is left out: its nodes look as if they were in none."""
        for row in self.unreadable_rows:
            if row.is_command:
                raise UnreadableRowError("dynamodb:Query", row)

    @property
    def unreadable_claims(self) -> frozenset[str]:
        """Names of claims that exist although `claims` lacks them."""
        return frozenset(row.name for row in self.unreadable_rows if row.is_claim)
