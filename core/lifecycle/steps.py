"""The next step of a claim or command, as data.

A controller carries out a step and stores the new record; steps with written intent store it before they act.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from core.model.pod import Pod
from core.model.values.taints import Taint
from core.reasons.claim import ClaimReason
from core.reasons.code import ReasonCode
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason


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
