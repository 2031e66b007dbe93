"""Evicts pods through the API server, or deletes overdue ones; an error for one pod does not stop the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from adapters.ports import (
    Clock,
    ConflictError,
    DeniedError,
    EvictionBlockedError,
    Kubernetes,
    LostReplyError,
    NotFoundError,
    PortError,
    SeveralBudgetsError,
    ThrottledError,
)
from adapters.run_report import RunReport
from core.lifecycle.draining.evictions import EvictionRefusal, identity
from core.lifecycle.records import Deletion
from core.lifecycle.steps import Drain
from core.manifests.wire import api_resources as kinds
from core.model.pod import Pod
from core.reasons.decision import DecisionKind
from core.reasons.drain import DrainReason, EvictionReason
from core.reasons.termination import TerminationReason
from lambdas.controllers.draining.forced_deletions import ForcedDeletions
from lambdas.controllers.webhook_errors import is_of_webhook

ROUND_FOR: Final = timedelta(seconds=10)
"""Time for one round: a hanging webhook may delay each eviction, and the invocation has a minute for all."""


class EvictionRound(msgspec.Struct):
    """The results of one round.

    Attributes:
        refused: Key of each pod that was not evicted or forced off → the refusal.
        moved: How many pods were evicted or forced off.
        wait: The delay that the API server requests.
        postponed: When to try the pods again whose workload just lost a pod by force; zero if there are none.
    """

    refused: dict[str, EvictionRefusal] = {}
    moved: int = 0
    wait: timedelta = timedelta(0)
    postponed: timedelta = timedelta(0)


class Evictor:
    """Carries out the step `Drain`."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._forced = ForcedDeletions(clock)

    def carry_out(self, step: Drain, deletion: Deletion, node: str, report: RunReport) -> EvictionRound:
        """Evict the pods in order, until the round's time is up or the server requests a delay."""
        done = EvictionRound()
        until = self._clock.now() + ROUND_FOR
        for asked, (pod, grace) in enumerate(step.force):
            if self._clock.now() >= until:
                report.count("postponedEvictions", len(step.force) - asked)
                break
            self._force(pod, grace, node, done, report)
        for asked, pod in enumerate(step.evict):
            if done.wait or self._clock.now() >= until:
                report.count("postponedEvictions", len(step.evict) - asked)
                break
            if (wait := self._forced.wait(pod)) > timedelta(0):
                report.count("postponedEvictions")
                done.postponed = max(done.postponed, wait)
            else:
                self._evict(pod, deletion, node, done, report)
        return done

    def _evict(self, pod: Pod, deletion: Deletion, node: str, done: EvictionRound, report: RunReport) -> None:
        try:
            self._kubernetes.evict(pod.namespace, pod.name, uid=pod.uid)
        except PortError as error:
            if _is_gone(error):
                return
            refusal = _refusal(error)
            done.refused[pod.key] = refusal
            done.wait = max(done.wait, refusal.retry_after)
            before = deletion.tries.get(identity(pod))
            if before is None or before.reason != refusal.reason:
                report.decide(DecisionKind.DRAIN, pod.key, refusal.reason, str(error))
        else:
            done.moved += 1
            report.decide(
                DecisionKind.DRAIN, pod.key, TerminationReason.stored(deletion.reason), f"evicted from {node}"
            )

    def _force(self, pod: Pod, grace: int, node: str, done: EvictionRound, report: RunReport) -> None:
        self._forced.note(pod)
        try:
            self._kubernetes.delete(kinds.PODS, pod.name, namespace=pod.namespace, uid=pod.uid, grace_seconds=grace)
        except PortError as error:
            if _is_gone(error):
                return
            refusal = _refusal(error)
            done.refused[pod.key] = msgspec.structs.replace(refusal, is_forced=True)
            report.decide(DecisionKind.DRAIN, pod.key, refusal.reason, f"{error}: it could not be deleted")
        else:
            done.moved += 1
            report.decide(DecisionKind.DRAIN, pod.key, DrainReason.DEADLINE_REACHED, f"deleted from {node}")
        finally:
            self._forced.note(pod)


def _is_gone(error: PortError) -> bool:
    """Whether the pod is gone, or another pod has its name."""
    return isinstance(error, NotFoundError | ConflictError) and not is_of_webhook(error)


def _refusal(error: PortError) -> EvictionRefusal:
    """Classify an error, specific types before general ones. A webhook's delay is not the server's: neighbours do not wait."""
    if isinstance(error, EvictionBlockedError):
        return EvictionRefusal(EvictionReason.POD_DISRUPTION_BUDGET)
    if isinstance(error, SeveralBudgetsError):
        return EvictionRefusal(EvictionReason.SEVERAL_BUDGETS)
    if is_of_webhook(error):
        return EvictionRefusal(EvictionReason.WEBHOOK_FAILED)
    if isinstance(error, ThrottledError):
        return EvictionRefusal(EvictionReason.THROTTLED, error.retry_after)
    if isinstance(error, LostReplyError):
        return EvictionRefusal(EvictionReason.NO_REPLY)
    return EvictionRefusal(EvictionReason.DENIED if isinstance(error, DeniedError) else EvictionReason.SERVER_ERROR)
