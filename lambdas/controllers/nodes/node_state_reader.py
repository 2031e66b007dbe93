"""Reads the inputs of one invocation of `execute`, each once and only if a step needs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from threading import RLock
from typing import Any, TypeVar

from adapters.observation.cluster_reader import UNBOUND
from adapters.ports import Clock, CloudProvider, Instance, Kubernetes, NotFoundError
from adapters.runtime.observability import logger
from core import labels
from core.errors import InvalidInputError
from core.lifecycle.claims import is_late_to_initialize, needs_instance
from core.lifecycle.draining.cancellation import is_last_check_due
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.launching.shared_launch import is_unnamed, launch_name
from core.lifecycle.records import ClaimRecord
from core.lifecycle.registration import has_registered
from core.manifests import policies, storage
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.model.pod import Pod
from core.model.policy import PodDisruptionBudget
from core.model.storage import VolumeAttachment
from core.pods.disposition import is_drainable
from lambdas.controllers.nodes.claim_nodes import ClaimNodes
from lambdas.controllers.nodes.node_lists import NodeLists, ObservedNode

T = TypeVar("T")


def _once(reader: Callable[[NodeStateReader], T]) -> Callable[[NodeStateReader], T]:
    """Cache the result for the reader's short life; concurrent callers wait for the first one's result.

    Python 3.11's `cached_property` would hold one lock for all readers of the process during a remote call.
    """

    def answer(self: NodeStateReader) -> T:
        kept: dict[str, Any] = self.kept
        with self.lock:
            if reader.__name__ not in kept:
                kept[reader.__name__] = reader(self)
            found: T = kept[reader.__name__]
        return found

    return answer


class NodeStateReader:
    """A short-lived view for claims' next steps; every object is as of its first read.

    Only small collections are listed whole: an open node is read by its name, pods by their node.
    """

    def __init__(
        self, kubernetes: Kubernetes, cloud: CloudProvider, clock: Clock, lists: NodeLists | None = None
    ) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud
        self._clock = clock
        self.nodes = ClaimNodes(kubernetes, clock, lists or NodeLists(kubernetes, clock))
        self.kept: dict[str, Any] = {}
        self.lock = RLock()

    def node(self, name: str) -> ObservedNode | None:
        """Return the node of this name, None if there is none."""
        return self.nodes.node(name)

    def refresh(self, name: str) -> None:
        """Read one node again, and its pods on demand, after we have changed it. Raises DeniedError as `ClaimNodes`."""
        self.kept.get("pods", {}).pop(name, None)
        self.nodes.refresh(name)

    def facts(self, record: ClaimRecord) -> ClaimFacts:
        """Return all facts on which the claim's next step depends."""
        found = self.nodes.of(record)
        node = found[0] if len(found) == 1 else None
        gone = instance = None
        if needs_instance(record, node, self._clock.now()):
            if record.machine is None:
                instance = self.tagged(record.name)
            else:
                known = self.instance(record.instance_id)
                gone = known is None
                if known is not None and not found:
                    found = self.nodes.named_after(known, record)
                    node = found[0] if found else None
        name = node.name if node is not None else record.node_name
        leaves = record.deletion is not None and (
            record.is_registered if node is None else has_registered(record, node)
        )
        pods = self._pods_on(name) if name and (leaves or is_late_to_initialize(record, self._clock.now())) else ()
        return ClaimFacts(
            nodes=found,
            pods=pods,
            budgets=self._budgets() if pods and is_last_check_due(record) else (),
            attachments=self._attachments_on(name, pods) if leaves and node is not None else (),
            is_instance_gone=gone,
            tagged_instance=instance.instance_id if instance else "",
        )

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods bound to a node, by key; unreadable ones are left out."""
        return self._pods_on(node)

    def unbound_pods(self, keys: Collection[str]) -> tuple[Pod, ...]:
        """Return those of the pods (`namespace/name`) that are neither bound to a node nor being deleted."""
        return tuple(pod for pod in self._unbound() if pod.key in keys and not pod.is_terminating)

    def limits(self, node_pool: str) -> dict[str, int]:
        """Return the limits of a NodePool; none if it does not exist or cannot be read."""
        if not node_pool:
            return {}
        known: dict[str, dict[str, int]] = self.kept.setdefault("limits", {})
        if node_pool not in known:
            from core.api.translation import (
                node_pool as translated,  # loads pydantic, which only replacements of a node need
            )

            try:
                known[node_pool] = translated(self._kubernetes.get(kinds.NODE_POOLS, node_pool)).limits
            except (NotFoundError, InvalidInputError):
                known[node_pool] = {}
        return known[node_pool]

    def instance(self, instance_id: str) -> Instance | None:
        """Return one instance by id, None if EC2 no longer has it."""
        return next(iter(self._cloud.instances([instance_id])), None)

    @_once
    def _unbound(self) -> tuple[Pod, ...]:
        return tuple(map(PodTranslator().readable_or_not, self._kubernetes.list(kinds.PODS, fields=UNBOUND).items))

    @_once
    def _budgets(self) -> tuple[PodDisruptionBudget, ...]:
        found: list[PodDisruptionBudget] = []
        for written in self._kubernetes.list(kinds.POD_DISRUPTION_BUDGETS).items:
            with suppress(InvalidInputError):
                found.append(policies.pod_disruption_budget(written))
        return tuple(found)

    @_once
    def _attachments(self) -> tuple[VolumeAttachment, ...]:
        return tuple(storage.attachment(found) for found in self._kubernetes.list(kinds.VOLUME_ATTACHMENTS).items)

    @_once
    def _instances(self) -> tuple[Instance, ...]:
        return self._cloud.instances()

    def launched_with(self, record: ClaimRecord) -> tuple[Instance, ...]:
        """Return the living unnamed instances of a shared launch, the one with the claim's index first."""
        together = [found for found in self._instances() if found.tags.get(labels.LAUNCH) == launch_name(record)]
        in_turn = [*together[record.share :], *together[: record.share]]
        return tuple(found for found in in_turn if found.is_alive and is_unnamed(found.tags))

    def tagged(self, claim: str) -> Instance | None:
        """Return the living instance with the claim's tag, None if there is none."""
        mine = [found for found in self._instances() if found.tags.get(labels.NODECLAIM) == claim and found.is_alive]
        return min(mine, key=lambda found: found.instance_id, default=None)

    def _pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods bound to a node. An unreadable pod is waited for and evicted like any other, by its name."""
        translator = PodTranslator()
        found: list[Pod] = []
        for pod in map(translator.readable_or_not, self._bound_to(node)):
            if pod.unreadable:
                logger.warning(
                    "pod on a leaving node cannot be read", extra={"pod": pod.key, "problem": pod.unreadable}
                )
            found.append(pod)
        return tuple(sorted(found, key=lambda pod: pod.key))

    def _bound_to(self, node: str) -> tuple[Any, ...]:
        known: dict[str, tuple[Any, ...]] = self.kept.setdefault("pods", {})
        if node not in known:
            known[node] = self._kubernetes.list(kinds.PODS, fields=f"spec.nodeName={node}").items
        return known[node]

    def _attachments_on(self, node: str, pods: Iterable[Pod]) -> tuple[VolumeAttachment, ...]:
        """Return volumes that must be detached after the pods are gone, except those of pods that stay until the end."""
        now = self._clock.now()
        if any(is_drainable(pod, now) for pod in pods):
            return ()
        attached = [found for found in self._attachments() if found.node_name == node]
        if not attached:
            return ()
        stay = [pod for pod in pods if not pod.is_terminal]
        kept = {self._volume_of(pod.namespace, claim) for pod in stay for claim in pod.claim_names()}
        return tuple(found for found in attached if found.volume_name not in kept)

    def _volume_of(self, namespace: str, claim: str) -> str:
        """Return the volume that a PersistentVolumeClaim is bound to, empty for none."""
        only = f"metadata.namespace={namespace},metadata.name={claim}"
        found = self._kubernetes.list(kinds.PERSISTENT_VOLUME_CLAIMS, fields=only).items
        return found[0].spec.volume_name if found else ""
