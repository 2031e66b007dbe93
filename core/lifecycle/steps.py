"""What to do next, as data. A controller carries a step out and stores the new record, before acting where intent is first."""

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
    """Look again after `delay`."""

    delay: timedelta
    reason: str


class Rest(msgspec.Struct, frozen=True):
    """Nothing more to do until something else happens."""


class Launch(msgspec.Struct, frozen=True):
    """Send the claim's launch order."""


class Adopt(msgspec.Struct, frozen=True):
    """Take over an instance that a lost or repeated launch left behind."""

    instance_id: str


class Register(msgspec.Struct, frozen=True):
    """Give the node that joined its labels, annotations, taints and finalizers; of the last two the whole new lists."""

    node: str
    labels: dict[str, str]
    annotations: dict[str, str]
    taints: tuple[Taint, ...]
    finalizers: tuple[str, ...]


class NoteUsable(msgspec.Struct, frozen=True):
    """Note that the node was found ready: pods are bound to it once its kubelet has seen the same."""

    node: str


class BindPods(msgspec.Struct, frozen=True):
    """Bind the claim's pods to its node, which kube-scheduler is kept off."""

    node: str


class MarkInitialized(msgspec.Struct, frozen=True):
    """Label the node as fully started, and let kube-scheduler in if it was kept off."""

    node: str


class ReportNode(msgspec.Struct, frozen=True):
    """Report once that something is wrong with the claim's node, which stays; `pods` wait for it."""

    node: str
    reason: ClaimReason
    message: str
    pods: tuple[str, ...] = ()


class BeginTermination(msgspec.Struct, frozen=True):
    """Let the claim go."""

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


class GiveBack(msgspec.Struct, frozen=True):
    """Let the node stay: its drain would come to nothing. `reason` says why it is left alone for a while."""

    node: str
    reason: NodeReason
    message: str


class Blocker(msgspec.Struct, frozen=True):
    """A pod that keeps its node: a code, and one sentence for people."""

    pod: Pod
    reason: ReasonCode
    message: str


class Escalate(msgspec.Struct, frozen=True):
    """Report that the drain makes no progress."""

    escalation_level: int
    blockers: tuple[Blocker, ...]
    message: str


class TerminateInstance(msgspec.Struct, frozen=True):
    """Tell EC2 to terminate the instance, as often as it takes."""


class DeleteNode(msgspec.Struct, frozen=True):
    """Delete the Node object; its instance is gone."""

    node: str


class Forget(msgspec.Struct, frozen=True):
    """Drop the claim's record."""

    reason: ReasonCode
    message: str = ""


ClaimStep = (
    Wait
    | Rest
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
    | GiveBack
    | Escalate
    | TerminateInstance
    | DeleteNode
    | Forget
)


class Verify(msgspec.Struct, frozen=True):
    """Check the command on a new snapshot, then start it or drop it."""


class Start(msgspec.Struct, frozen=True):
    """Taint the candidates, then request the replacements."""


class RemoveCandidates(msgspec.Struct, frozen=True):
    """Let the candidates' claims go; the command is done with that."""

    claims: tuple[str, ...]


class Abandon(msgspec.Struct, frozen=True):
    """Give the command up: free its candidates again, and let replacements go that nobody needs."""

    reason: ReasonCode
    message: str


CommandStep = Wait | Verify | Start | RemoveCandidates | Abandon
