"""Facts about one claim or command from which its next step is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from core.lifecycle.records import ClaimRecord
from core.model.node import Node
from core.model.pod import Pod
from core.model.policy import PodDisruptionBudget
from core.model.storage import VolumeAttachment

INSTANCE_CHECK_AFTER: Final = timedelta(minutes=2)
"""The age from which a launch without a node is looked up in EC2: it may have died. EC2 may not list younger ones yet."""


class ClaimFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that Kubernetes and EC2 report about one claim.

    Attributes:
        nodes: The nodes with its provider id: one, none, or by mistake several.
        pods: The pods on its node.
        budgets: PodDisruptionBudgets, if the drain can still be cancelled and pods are on the node.
        attachments: Volumes still attached to its node, except those of pods that stay until the end.
        tagged_instance: Id of an instance that carries the claim's tag while the record has none; empty for none.
        has_replacements: Whether all replacements for its pods are ready; looked up while the drain waits for them.
        is_instance_gone: Whether EC2 no longer has the instance; None if EC2 was not asked.
        usable_for: How long the node has been observed to be ready for its pods, by a single clock.
    """

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    tagged_instance: str = ""
    has_replacements: bool = False
    is_instance_gone: bool | None = None
    usable_for: timedelta = timedelta(0)

    @property
    def node(self) -> Node | None:
        """The claim's only node; None if there is none or several have its provider id."""
        return self.nodes[0] if len(self.nodes) == 1 else None


class CommandFacts(msgspec.Struct, frozen=True, kw_only=True):
    """queued: How many nodes all commands together are removing; replacements get more time in a long queue (Karpenter).

    Attributes:
        queued: How many nodes all commands together are removing; long queues are given more time (Karpenter).
    """

    claims: Mapping[str, ClaimRecord] = {}
    queued: int = 1
