"""Nodes of claims: read once an invocation, patched, released and deleted."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock, RLock
from typing import Any, Final, TypeVar

import msgspec

from adapters.observability import logger
from adapters.observation.cluster_reader import UNBOUND, OptionalKind
from adapters.ports import Clock, CloudProvider, DeniedError, Instance, JsonObject, Kubernetes, NotFoundError
from core import labels
from core.errors import InvalidInputError
from core.lifecycle.binding import CLOCKS_APART
from core.lifecycle.claims import REGISTRATION_TIMEOUT, is_late_to_initialize, may_have_joined, needs_instance
from core.lifecycle.deletion import is_last_check_due
from core.lifecycle.draining import EXCLUDED_BY_US, REASON_ANNOTATION
from core.lifecycle.launching import is_unnamed, launch_name
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.registration import has_registered
from core.lifecycle.steps import ClaimFacts
from core.manifests import assemble, pods, storage
from core.manifests.pods import PodTranslator
from core.manifests.wire import resources
from core.model.catalogue import Catalogue
from core.model.pod import Pod, VolumeAttachment
from core.model.snapshot import Node, PodDisruptionBudget
from core.model.values.taints import DISRUPTED, LEAVING, OUTDATED, Taint
from core.pods import is_drainable
from core.pools import limits_by_counter

# Caches lists of nodes, so that claims looking for their nodes share them.


JOINING: Final = f"!{labels.INITIALIZED},!eks.amazonaws.com/nodegroup,eks.amazonaws.com/compute-type!=fargate"
"""Label selector: nodes that may belong to claims without a known node; there are few at any time.

A claim's node is identified by its provider id, by which the API server cannot select nodes. Our labels come with the kubelet,
but not if a class has custom user data, so the selector excludes: nodes that EKS itself runs, and initialized nodes. A claim
stores its node's name long before it initializes the node.
"""

FRESH_FOR: Final = timedelta(milliseconds=900)
"""How old a list may be for a claim that waits for its node. A claim is checked every second while nodes join
(`core.lifecycle.claims.BOOT_RECHECKED`), so a sandbox makes at most sixty such lists a minute, regardless of the number of
booting claims."""


class ObservedNode(msgspec.Struct, frozen=True):
    """A node and the version of the object that it was read from."""

    node: Node
    resource_version: str


class _Listed(msgspec.Struct, frozen=True):
    begun_at: datetime
    nodes: tuple[ObservedNode, ...]


class NodeLists:
    """Lists by label selector, shared by the messages and threads that one sandbox handles within a short time."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._lock = Lock()
        self._listed: dict[str, _Listed] = {}

    def recent(self, selector: str) -> tuple[ObservedNode, ...]:
        """Return the nodes that had these labels at most `FRESH_FOR` ago. Raises PortError."""
        return self.since(selector, self._clock.now() - FRESH_FOR)

    def since(self, selector: str, moment: datetime) -> tuple[ObservedNode, ...]:
        """Return a list begun at `moment` or later; a caller during another's listing waits for that list. Raises PortError."""
        with self._lock:
            listed = self._listed.get(selector)
            if listed is None or listed.begun_at < moment:
                begun = self._clock.now()
                # A list that is older than this is never used, so only those in use are kept.
                kept = {key: listing for key, listing in self._listed.items() if listing.begun_at >= begun - FRESH_FOR}
                listing = tuple(readable(self._kubernetes.list(resources.NODES, labels=selector).items))
                listed = _Listed(begun, listing)
                self._listed = kept | {selector: listed}
            return listed.nodes


def readable(items: Iterable[Any]) -> Iterable[ObservedNode]:
    """Return the nodes that can be parsed, as decoded from the wire."""
    for written in items:
        try:
            yield seen_node(written)
        except InvalidInputError:
            logger.exception("node cannot be read", extra={"node": written.metadata.name})


def seen_node(written: Any) -> ObservedNode:
    """Return a node as decoded from the wire. Raises InvalidInputError."""
    return ObservedNode(assemble.node(written), written.metadata.resource_version)


# Finds the Node of each claim in one invocation of `execute`: by its name, by a shared list, or by its instance.


class ClaimNodes:
    """Nodes as of their first read. Open nodes are read by name; lists hold only nodes that join, and nodes of few shapes."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock, lists: NodeLists) -> None:
        self._kubernetes = kubernetes
        self._clock = clock
        self._begun = clock.now()
        self._lists = lists
        self._by_name: dict[str, ObservedNode | None] = {}

    def node(self, name: str) -> ObservedNode | None:
        """Return the node of this name, None if there is none."""
        if name not in self._by_name:
            self.refresh(name)
        return self._by_name[name]

    def refresh(self, name: str) -> None:
        """Read one node again, after we have changed it.

        Raises:
            DeniedError: If it cannot be parsed: it exists, so its claim must not treat it as gone.
        """
        try:
            self._by_name[name] = seen_node(self._kubernetes.get(resources.NODES, name))
        except NotFoundError:
            self._by_name[name] = None
        except InvalidInputError as error:
            raise DeniedError("kube:get nodes", str(error)) from error

    def of(self, record: ClaimRecord) -> tuple[Node, ...]:
        """Return the nodes that report the claim's machine: one, unless something copied its provider id."""
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
        nodes_of_claim = [seen for seen in nodes if seen.node.provider_id == record.provider_id]
        return [self._by_name.get(seen.node.name, seen) for seen in nodes_of_claim]

    def _listed(self, selector: str, record: ClaimRecord) -> tuple[ObservedNode, ...]:
        """Return nodes by label.

        If a missing node would end the claim or its instance, lists from before this reader are not used.
        """
        if record.deletion is None:
            is_waiting = self._clock.now() - record.phase_since < REGISTRATION_TIMEOUT
        else:
            is_waiting = record.deletion.terminated_at is not None
        return self._lists.recent(selector) if is_waiting else self._lists.since(selector, self._begun)

    def named_after(self, instance: Instance, record: ClaimRecord) -> tuple[Node, ...]:
        """Return the claim's node by the name that EKS derives from the instance, which a rebuilt claim may lack."""
        seen = self.node(instance.private_dns_name) if instance.private_dns_name else None
        return (seen.node,) if seen is not None and seen.node.provider_id == record.provider_id else ()


def _like(record: ClaimRecord) -> str:
    """Return a label selector for working nodes of the claim's NodePool, type and zone, which are few in a diverse fleet."""
    pool = record.plan.node_pool
    keys = (labels.INSTANCE_TYPE, labels.ZONE)
    shape = [f"{key}={record.labels[key]}" for key in keys if key in record.labels]
    of_pool = f"{labels.NODEPOOL}={pool}" if pool else f"!{labels.NODEPOOL}"
    return ",".join([f"{labels.INITIALIZED}=true", of_pool, *shape])


# Patches Node objects. Taints are one list, so each such patch applies only to the version that was read.


def patch_node(
    kubernetes: Kubernetes,
    seen: ObservedNode,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[Taint] | None = None,
    finalizers: Iterable[str] | None = None,
) -> None:
    """Add labels and annotations, replace taints and finalizers. Raises ConflictError if the node has changed since then."""
    metadata: JsonObject = {}
    if labels:
        metadata["labels"] = dict(sorted(labels.items()))
    if annotations:
        metadata["annotations"] = dict(sorted(annotations.items()))
    body: JsonObject = {"metadata": metadata}
    if taints is not None or finalizers is not None:
        metadata["resourceVersion"] = seen.resource_version
    if finalizers is not None:
        metadata["finalizers"] = list(finalizers)
    if taints is not None:
        body["spec"] = {"taints": [taint.written() for taint in taints]}
    kubernetes.patch(resources.NODES, seen.node.name, body)


def delete_node(kubernetes: Kubernetes, seen: ObservedNode) -> None:
    """Remove our finalizer and delete exactly this Node; no error if it is gone. Raises ConflictError if it has changed."""
    node = seen.node
    try:
        if labels.TERMINATION_FINALIZER in node.finalizers:
            others = [name for name in node.finalizers if name != labels.TERMINATION_FINALIZER]
            patch_node(kubernetes, seen, finalizers=others)
        if node.deleted_at is None:
            kubernetes.delete(resources.NODES, node.name, uid=node.uid)
    except NotFoundError:
        return


def release_node(kubernetes: Kubernetes, seen: ObservedNode) -> None:
    """Remove the marks of a disruption from a node that stays."""
    others = [taint for taint in seen.node.taints if taint.key != DISRUPTED.key]
    metadata: JsonObject = {"resourceVersion": seen.resource_version, "annotations": {REASON_ANNOTATION: None}}
    if seen.node.labels.get(labels.EXCLUDE_FROM_BALANCERS) == EXCLUDED_BY_US:
        metadata["labels"] = {labels.EXCLUDE_FROM_BALANCERS: None}
    body: JsonObject = {"metadata": metadata, "spec": {"taints": [taint.written() for taint in others]}}
    kubernetes.patch(resources.NODES, seen.node.name, body)


MARKS: Final = (OUTDATED, LEAVING)
"""What makes kube-scheduler prefer other nodes; pods that fit nowhere else still come."""


def mark_node(kubernetes: Kubernetes, node: Node, marks: Collection[Taint]) -> None:
    """Give a node exactly these of `MARKS`; nothing if it is gone or another one by now.

    Raises:
        ConflictError: If somebody changed it meanwhile.
    """
    try:
        seen = seen_node(kubernetes.get(resources.NODES, node.name))
    except NotFoundError:
        return
    if seen.node.uid == node.uid:
        others = [taint for taint in seen.node.taints if taint not in MARKS]
        patch_node(kubernetes, seen, taints=[*others, *(mark for mark in MARKS if mark in marks)])


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
            listing: T = kept[reader.__name__]
        return listing

    return answer


_NAME_OF_INSTANCE: Final = re.compile(r"(ip-|i-)[0-9a-f-]+\.")
"""The form of the names that EC2 gives instances, after their address or their id; all others are checked."""


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
        belief = self._believed(record, self.nodes.of(record))
        node = belief[0] if len(belief) == 1 else None
        gone = instance = None
        if needs_instance(record, node, self._clock.now()):
            if record.machine is None:
                instance = self.tagged(record.name)
            else:
                claimed_instance = self.instance(record.instance_id)
                gone = claimed_instance is None
                if claimed_instance is not None and not belief:
                    belief = self.nodes.named_after(claimed_instance, record)
                    node = belief[0] if belief else None
        name = node.name if node is not None else record.node_name
        leaves = record.deletion is not None and (
            record.is_registered if node is None else has_registered(record, node)
        )
        pods = self._pods_on(name) if name and (leaves or is_late_to_initialize(record, self._clock.now())) else ()
        return ClaimFacts(
            nodes=belief,
            pods=pods,
            budgets=self._budgets() if pods and is_last_check_due(record) else (),
            attachments=self._attachments_on(name, pods) if leaves and node is not None else (),
            is_instance_gone=gone,
            tagged_instance=instance.instance_id if instance else "",
        )

    def _believed(self, record: ClaimRecord, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """Return the nodes that may be the claim's before it has registered one.

        Anyone who may create Nodes can copy a provider id. EKS names a node after its instance's private DNS name, so if
        several Nodes have the id, or one of a name that no instance has, EC2 says which is the instance's.
        """
        if record.node_name or not nodes or (len(nodes) == 1 and _NAME_OF_INSTANCE.match(nodes[0].name)):
            return nodes
        instance = self.instance(record.instance_id)
        if instance is None or not instance.private_dns_name:
            return nodes
        return tuple(node for node in nodes if node.name == instance.private_dns_name)

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
        kept_limits: dict[str, dict[str, int]] = self.kept.setdefault("limits", {})
        if node_pool not in kept_limits:
            from core.api.translation import node_pool as translated

            try:
                kept_limits[node_pool] = translated(self._kubernetes.get(resources.NODE_POOLS, node_pool)).limits
            except (NotFoundError, InvalidInputError):
                kept_limits[node_pool] = {}
        return kept_limits[node_pool]

    @_once
    def limits_in_force(self) -> dict[str, dict[str, int]]:
        """Return the limits of each counter as calendars have them now (`core.pools.limits_by_counter`). Raises PortError."""
        objects = {
            resources.NODE_POOLS: self._kubernetes.list(resources.NODE_POOLS).items,
            resources.CALENDARS: OptionalKind(self._kubernetes, self._clock, resources.CALENDARS).all([]),
        }
        snapshot, _ = assemble.assemble(objects, now=self._clock.now(), catalogue=Catalogue(), is_live=True)
        return limits_by_counter([pool for pool in snapshot.node_pools if not pool.problem])

    def instance(self, instance_id: str) -> Instance | None:
        """Return one instance by id, None if EC2 no longer has it."""
        return next(iter(self._cloud.instances([instance_id])), None)

    @_once
    def _unbound(self) -> tuple[Pod, ...]:
        return tuple(map(PodTranslator().readable_or_not, self._kubernetes.list(resources.PODS, fields=UNBOUND).items))

    @_once
    def _budgets(self) -> tuple[PodDisruptionBudget, ...]:
        budgets: list[PodDisruptionBudget] = []
        for written in self._kubernetes.list(resources.POD_DISRUPTION_BUDGETS).items:
            with suppress(InvalidInputError):
                budgets.append(pods.pod_disruption_budget(written))
        return tuple(budgets)

    @_once
    def _attachments(self) -> tuple[VolumeAttachment, ...]:
        return tuple(
            storage.attachment(attachment) for attachment in self._kubernetes.list(resources.VOLUME_ATTACHMENTS).items
        )

    @_once
    def _instances(self) -> tuple[Instance, ...]:
        return self._cloud.instances()

    def launched_with(self, record: ClaimRecord) -> tuple[Instance, ...]:
        """Return the living unnamed instances of a shared launch, the one with the claim's index first."""
        together = [
            instance for instance in self._instances() if instance.tags.get(labels.LAUNCH) == launch_name(record)
        ]
        in_turn = [*together[record.share :], *together[: record.share]]
        return tuple(instance for instance in in_turn if instance.is_alive and is_unnamed(instance.tags))

    def tagged(self, claim: str) -> Instance | None:
        """Return the living instance with the claim's tag, None if there is none."""
        candidates = [
            instance
            for instance in self._instances()
            if instance.tags.get(labels.NODECLAIM) == claim and instance.is_alive
        ]
        return min(candidates, key=lambda instance: instance.instance_id, default=None)

    def _pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods bound to a node. An unreadable pod is waited for and evicted like any other, by its name."""
        translator = PodTranslator()
        bound: list[Pod] = []
        for pod in map(translator.readable_or_not, self._bound_to(node)):
            if pod.unreadable:
                logger.warning(
                    "pod on a leaving node cannot be read", extra={"pod": pod.key, "problem": pod.unreadable}
                )
            bound.append(pod)
        return tuple(sorted(bound, key=lambda pod: pod.key))

    def _bound_to(self, node: str) -> tuple[Any, ...]:
        kept_pods: dict[str, tuple[Any, ...]] = self.kept.setdefault("pods", {})
        if node not in kept_pods:
            kept_pods[node] = self._kubernetes.list(resources.PODS, fields=f"spec.nodeName={node}").items
        return kept_pods[node]

    def _attachments_on(self, node: str, pods: Iterable[Pod]) -> tuple[VolumeAttachment, ...]:
        """Return volumes that must be detached after the pods are gone, except those of pods that stay until the end."""
        now = self._clock.now()
        if any(is_drainable(pod, now) for pod in pods):
            return ()
        attached = [attachment for attachment in self._attachments() if attachment.node_name == node]
        if not attached:
            return ()
        stay = [pod for pod in pods if not pod.is_terminal]
        kept = {self._volume_of(pod.namespace, claim) for pod in stay for claim in pod.claim_names()}
        return tuple(attachment for attachment in attached if attachment.volume_name not in kept)

    def _volume_of(self, namespace: str, claim: str) -> str:
        """Return the volume that a PersistentVolumeClaim is bound to, empty for none."""
        only = f"metadata.namespace={namespace},metadata.name={claim}"
        claims = self._kubernetes.list(resources.PERSISTENT_VOLUME_CLAIMS, fields=only).items
        return claims[0].spec.volume_name if claims else ""
