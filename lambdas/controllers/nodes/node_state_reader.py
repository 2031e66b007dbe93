"""Reads the inputs of one invocation of `execute`, each once and only if a step needs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from threading import RLock
from typing import Any, TypeVar

from adapters.observation.cluster_reader import UNBOUND
from adapters.ports import Clock, CloudProvider, DeniedError, Instance, Kubernetes, NotFoundError
from adapters.runtime.observability import logger
from core import labels
from core.errors import InvalidInputError
from core.lifecycle.binding.eligibility import CLOCKS_APART
from core.lifecycle.claims import REGISTRATION_TIMEOUT, is_late_to_initialize, may_have_joined, needs_instance
from core.lifecycle.draining.cancellation import is_last_check_due
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.launching.shared_launch import is_unnamed, launch_name
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.registration import has_registered
from core.manifests import policies, storage
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.model.node import Node
from core.model.pod import Pod
from core.model.policy import PodDisruptionBudget
from core.model.storage import VolumeAttachment
from core.pods.disposition import is_drainable
from lambdas.controllers.nodes.node_lists import FRESH_FOR, JOINING, NodeLists, ObservedNode, seen_node

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
        self._begun = clock.now()
        self._lists = lists or NodeLists(kubernetes, clock)
        self.kept: dict[str, Any] = {}
        self.lock = RLock()
        self._by_name: dict[str, ObservedNode | None] = {}

    def node(self, name: str) -> ObservedNode | None:
        """Return the node of this name, None if there is none."""
        if name not in self._by_name:
            self.refresh(name)
        return self._by_name[name]

    def refresh(self, name: str) -> None:
        """Read one node again, and its pods on demand, after we have changed it.

        Raises:
            DeniedError: If it cannot be parsed: it exists, so its claim must not treat it as gone.
        """
        self.kept.get("pods", {}).pop(name, None)
        try:
            self._by_name[name] = seen_node(self._kubernetes.get(kinds.NODES, name))
        except NotFoundError:
            self._by_name[name] = None
        except InvalidInputError as error:
            raise DeniedError("kube:get nodes", str(error)) from error

    def facts(self, record: ClaimRecord) -> ClaimFacts:
        """Return all facts on which the claim's next step depends."""
        found = self._nodes_of(record)
        node = found[0] if len(found) == 1 else None
        gone = instance = None
        if needs_instance(record, node, self._clock.now()):
            if record.machine is None:
                instance = self.tagged(record.name)
            else:
                known = self.instance(record.instance_id)
                gone = known is None
                if known is not None and not found:
                    found = self._named_after(known, record)
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

    def _nodes_of(self, record: ClaimRecord) -> tuple[Node, ...]:
        if not record.provider_id:
            return ()
        if record.node_name:
            seen = [self._known_node(record)]
        else:
            seen = self._of_provider(record, self._listed(JOINING, record))
            if not seen and may_have_joined(record, self._clock.now()):
                seen = self._of_provider(record, self._listed(_like(record), record))
        return tuple(s.node for s in seen if s is not None and s.node.provider_id == record.provider_id)

    def _known_node(self, record: ClaimRecord) -> ObservedNode | None:
        """Return a claim's node by its name; while it waits to be opened, from the list that all such claims share.

        These claims are checked every second: in a burst of sixty nodes, each node would be read eight times. A list is used
        only if it is newer than the node's registration (by the clock that registered it): older ones lack our marks.
        """
        name, now = record.node_name, self._clock.now()
        earliest = max(record.phase_since + CLOCKS_APART, now - FRESH_FOR)
        is_waiting = record.phase is ClaimPhase.REGISTERED and record.deletion is None
        if is_waiting and earliest <= now and name not in self._by_name:
            listed = next((seen for seen in self._lists.since(JOINING, earliest) if seen.node.name == name), None)
            if listed is not None:
                self._by_name[name] = listed
        return self.node(name)

    def _of_provider(self, record: ClaimRecord, nodes: Iterable[ObservedNode]) -> list[ObservedNode | None]:
        mine = [seen for seen in nodes if seen.node.provider_id == record.provider_id]
        return [self._by_name.get(seen.node.name, seen) for seen in mine]

    def _listed(self, selector: str, record: ClaimRecord) -> tuple[ObservedNode, ...]:
        """Return nodes by label.

        If a missing node would end the claim or its instance, lists from before this reader are not used.
        """
        if record.deletion is None:
            is_waiting = self._clock.now() - record.phase_since < REGISTRATION_TIMEOUT
        else:
            is_waiting = record.deletion.terminated_at is not None
        return self._lists.recent(selector) if is_waiting else self._lists.since(selector, self._begun)

    def _named_after(self, instance: Instance, record: ClaimRecord) -> tuple[Node, ...]:
        """Return the claim's node by the name that EKS derives from the instance, which a rebuilt claim may lack."""
        seen = self.node(instance.private_dns_name) if instance.private_dns_name else None
        return (seen.node,) if seen is not None and seen.node.provider_id == record.provider_id else ()

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


def _like(record: ClaimRecord) -> str:
    """Return a label selector for working nodes of the claim's NodePool, type and zone, which are few in a diverse fleet."""
    pool = record.plan.node_pool
    keys = (labels.INSTANCE_TYPE, labels.ZONE)
    shape = [f"{key}={record.labels[key]}" for key in keys if key in record.labels]
    of_pool = f"{labels.NODEPOOL}={pool}" if pool else f"!{labels.NODEPOOL}"
    return ",".join([f"{labels.INITIALIZED}=true", of_pool, *shape])
