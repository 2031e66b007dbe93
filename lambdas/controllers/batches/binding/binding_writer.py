"""Writes decided bindings, in parallel where no rule connects them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final

from adapters.ports import Clock, ConflictError, DeniedError, Kubernetes, NotFoundError, PortError
from adapters.runtime.observability import logger
from adapters.runtime.parallel_tasks import RunTasks
from core.lifecycle.binding.turn import DecidedBinding

REFUSALS: Final = 3
"""After this many refusals, a claim's other pods are left to kube-scheduler: we are evidently not permitted to bind them."""

WRITE_WITHIN: Final = timedelta(seconds=10)
"""Time for the bindings of a turn; the rest are written in the next turn."""


class WrittenBindings:
    """The results of a turn's bindings; threads add to it.

    Attributes:
        refusals: By claim and pod, the API server's answer to bindings that it does not permit.
        taken: Pods that already had a node, or were gone.
    """

    def __init__(self) -> None:
        self.bound: list[DecidedBinding] = []
        self.refusals: dict[str, dict[str, str]] = {}
        self.taken = 0
        self._lock = Lock()

    def note(self, binding: DecidedBinding, error: PortError | None) -> None:
        """Record a binding as written, or with the API server's refusal."""
        with self._lock:
            if error is None:
                self.bound.append(binding)
            elif isinstance(error, NotFoundError | ConflictError):
                self.taken += 1
            elif isinstance(error, DeniedError):
                self.refusals.setdefault(binding.claim, {})[binding.pod.key] = str(error)

    def is_refused(self, claim: str) -> bool:
        """Whether no more of the claim's bindings should be tried."""
        return len(self.refusals.get(claim, ())) >= REFUSALS


class BindingWriter:
    """Writes bindings; each is a single attempt, and a pod bound by another writer stays where it is."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock, run_tasks: RunTasks) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._run_tasks = run_tasks

    def write(self, chains: Sequence[Sequence[DecidedBinding]]) -> WrittenBindings:
        """Write the bindings of each chain in their order, up to the first failure, on which the later ones depend."""
        written, until = WrittenBindings(), self._clock.now() + WRITE_WITHIN
        self._run_tasks([partial(self._write, chain, written, until) for chain in chains], WRITE_WITHIN)
        return written

    def _write(self, chain: Sequence[DecidedBinding], written: WrittenBindings, until: datetime) -> None:
        for binding in chain:
            if self._clock.now() >= until or written.is_refused(binding.claim):
                return
            pod = binding.pod
            try:
                self._kubernetes.bind(pod.namespace, pod.name, uid=pod.uid, node=binding.node)
            except PortError as error:
                logger.warning("pod could not be bound", extra={"pod": pod.key, "problem": str(error)})
                written.note(binding, error)
                return
            written.note(binding, None)
