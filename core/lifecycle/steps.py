"""The next step of a claim or command, as data.

A controller carries out a step and stores the new record; steps with written intent store it before they act.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.lifecycle.records import ClaimRecord
from core.model.pod import Pod, VolumeAttachment
from core.model.snapshot import Node, PodDisruptionBudget
from core.model.values.taints import Taint
from core.reasons.code import ClaimReason, ReasonCode, TerminationReason
from core.reasons.nodes import NodeReason

# Recheck delays that grow with the time already waited.


SHORTEST: Final = timedelta(seconds=2)
LONGEST: Final = timedelta(seconds=30)


def recheck_after(since: datetime, now: datetime) -> timedelta:
    """A tenth of the time already waited, in whole seconds, within `SHORTEST` and `LONGEST`."""
    tenth = timedelta(seconds=int((now - since).total_seconds() / 10))
    return min(LONGEST, max(SHORTEST, tenth))


# Facts about one claim or command from which its next step is chosen.


LISTED_WITHIN: Final = timedelta(minutes=2)
"""How long EC2's lists may lack a launched instance (docs/engineering/aws-facts.md#eventual-consistency)."""

INSTANCE_CHECK_AFTER: Final = LISTED_WITHIN
"""The age from which a launch without a node is looked up in EC2: it may have died. EC2 may not list younger ones yet."""


def may_be_unlisted(unclear_at: datetime | None, now: datetime) -> bool:
    """Whether a request without a clear answer may have launched an instance that EC2's lists lack.

    Until then no other token may be used: it would launch a second one.
    """
    return unclear_at is None or now - unclear_at < LISTED_WITHIN


ASKS_FOR: Final = timedelta(minutes=1)
"""The longest that a run asks EC2 for a claim's instance: the time-out of the functions that launch."""

ASKED_FOR: Final = 2 * ASKS_FOR
"""How long a note of a request protects the claim. It is written again after half of that, so that few writers meet."""


def may_be_asked_for(record: ClaimRecord, now: datetime) -> bool:
    """Whether another run may be asking EC2 for the claim's instance, so that its record must stay.

    Without the record the instance would count towards no limit. The run that planned the claim asks without a note: until it
    ends, no other run looks at the claim.
    """
    asked_at = record.moments.asked_at
    return asked_at is not None and now - asked_at < ASKED_FOR


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
        next_check_within: When the table alone brings the claim's next look, if no message asks for it; zero if one does.
    """

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    tagged_instance: str = ""
    has_replacements: bool = False
    is_instance_gone: bool | None = None
    usable_for: timedelta = timedelta(0)
    next_check_within: timedelta = timedelta(0)

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


class Wait(msgspec.Struct, frozen=True):
    """Check again after `delay`."""

    delay: timedelta
    reason: str


class NoStep(msgspec.Struct, frozen=True):
    """Nothing to do until an event."""


class Launch(msgspec.Struct, frozen=True):
    """Send the claim's launch order."""


class Adopt(msgspec.Struct, frozen=True):
    """Take over an instance left behind by a lost or repeated launch."""

    instance_id: str


class Register(msgspec.Struct, frozen=True):
    """Give a joined node its labels, annotations, taints and finalizers; the latter two are complete lists."""

    node: str
    labels: dict[str, str]
    annotations: dict[str, str]
    taints: tuple[Taint, ...]
    finalizers: tuple[str, ...]


class NoteUsable(msgspec.Struct, frozen=True):
    """Record that the node was found ready: pods are bound to it once its kubelet has seen the same state."""

    node: str


class BindPods(msgspec.Struct, frozen=True):
    """Bind the claim's pods to its node while kube-scheduler is kept off it."""

    node: str


class MarkInitialized(msgspec.Struct, frozen=True):
    """Label the node as initialized, and open it to kube-scheduler if that was kept off."""

    node: str


class ReportNode(msgspec.Struct, frozen=True):
    """Report once that something is wrong with the claim's node, which stays; `pods` wait for it."""

    node: str
    reason: ClaimReason
    message: str
    pods: tuple[str, ...] = ()


class BeginTermination(msgspec.Struct, frozen=True):
    """Start to remove the claim."""

    reason: TerminationReason
    message: str
    deadline: datetime | None = None


class TaintNode(msgspec.Struct, frozen=True):
    """Keep new pods and load balancers off the node; `taints` is the whole new list."""

    node: str
    labels: dict[str, str]
    annotations: dict[str, str]
    taints: tuple[Taint, ...]


class Drain(msgspec.Struct, frozen=True):
    """Evict some pods in this order, and delete others outright with the given grace in seconds."""

    evict: tuple[Pod, ...]
    force: tuple[tuple[Pod, int], ...]


class NoteEmpty(msgspec.Struct, frozen=True):
    """Record that the pods have left the node, which waits for volumes only."""

    node: str


class CancelDrain(msgspec.Struct, frozen=True):
    """Cancel the drain, which cannot finish. `reason` says why the node is exempt from disruption for a while."""

    node: str
    reason: NodeReason
    message: str


class Blocker(msgspec.Struct, frozen=True):
    """A pod that blocks the drain of its node: a code, and one sentence for people."""

    pod: Pod
    reason: ReasonCode
    message: str


class Escalate(msgspec.Struct, frozen=True):
    """Report that the drain makes no progress."""

    escalation_level: int
    blockers: tuple[Blocker, ...]
    message: str


class TerminateInstance(msgspec.Struct, frozen=True):
    """Ask EC2 to terminate the instance, repeatedly if needed."""


class DeleteNode(msgspec.Struct, frozen=True):
    """Delete the Node object; its instance is gone."""

    node: str


class Forget(msgspec.Struct, frozen=True):
    """Drop the claim's record."""

    reason: ReasonCode
    message: str = ""


ClaimStep = (
    Wait
    | NoStep
    | Launch
    | Adopt
    | Register
    | NoteUsable
    | BindPods
    | MarkInitialized
    | ReportNode
    | BeginTermination
    | TaintNode
    | Drain
    | NoteEmpty
    | CancelDrain
    | Escalate
    | TerminateInstance
    | DeleteNode
    | Forget
)


class Verify(msgspec.Struct, frozen=True):
    """Check the command against a new snapshot, then start or drop it."""


class Start(msgspec.Struct, frozen=True):
    """Taint the candidates, then request the replacements."""


class RemoveCandidates(msgspec.Struct, frozen=True):
    """Start to remove these candidates' claims; if they are the last ones, this completes the command."""

    claims: tuple[str, ...]
    is_last: bool = True


class Abandon(msgspec.Struct, frozen=True):
    """Abandon the command: release its candidates, and remove replacements that are not needed."""

    reason: ReasonCode
    message: str


CommandStep = Wait | Verify | Start | RemoveCandidates | Abandon
