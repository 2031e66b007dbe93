"""Assembles a snapshot from decoded objects, in the same way for a live cluster and for files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.manifests import nodes, policies, storage
from core.manifests.buffers import BufferTranslator, NotForUsError
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import decoding as wire
from core.manifests.wire.api_resources import Resource
from core.manifests.zone_ids import with_zones
from core.model.catalogue import Catalogue
from core.model.node import Node
from core.model.node_claim import NodeClaim, ObjectRef
from core.model.node_pool import NodeClass, NodePool
from core.model.overlay import CapacityBuffer, NodeOverlay
from core.model.pod import Pod
from core.model.policy import DaemonSet, PodDisruptionBudget, WorkloadSelector
from core.model.snapshot import Options, Snapshot

T = TypeVar("T")

_DEFAULTS: Final = Options()


class ObjectReaders(Protocol):
    """Readers of Karpenter's objects: `core.api`, or a cache of its results. Each raises InvalidInputError."""

    def node_pool(self, obj: Any, /) -> NodePool:
        """Read a NodePool."""
        ...

    def node_class(self, obj: Any, /) -> NodeClass:
        """Read an EC2NodeClass."""
        ...

    def node_claim(self, obj: Any, /) -> NodeClaim:
        """Read a NodeClaim."""
        ...

    def node_overlay(self, obj: Any, /) -> NodeOverlay:
        """Read a NodeOverlay."""
        ...


class ObjectProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An object that could not be used, or is used with a warning.

    Attributes:
        resource, position: Its kind, and its index among the given objects of that kind; -1 for an object that was not given.
        subject: The object for people, such as `Pod shop/cart-0`.
        field: Path of the field, empty for the object as a whole.
        problem: What is wrong, as the end of a sentence.
        is_warning: Whether the other objects may be used regardless, and this one too if possible.
    """

    resource: Resource
    position: int
    subject: str
    field: str
    problem: str
    is_warning: bool = False

    def __str__(self) -> str:
        return ": ".join(part for part in (self.subject, self.field, self.problem) if part)


def assemble(
    objects: Mapping[Resource, Iterable[Any]],
    *,
    now: datetime,
    catalogue: Catalogue,
    options: Options = _DEFAULTS,
    cluster: str = "",
    is_live: bool = False,
    readers: ObjectReaders | None = None,
) -> tuple[Snapshot, tuple[ObjectProblem, ...]]:
    """Translate objects, as `core.manifests.wire.decoding` decodes them, into a snapshot.

    The second result names the objects that cannot be understood. Those that decide about nodes remain in a form that protects
    nodes: a NodePool or EC2NodeClass marked with its problem, a pod or node with its identity and place, a PodDisruptionBudget
    that protects its whole namespace, a DaemonSet as its newest pod. All others are left out. A NodePool without a class is not
    ready in a live cluster; for files it is planned with the catalogue, with a warning. `readers` replace `core.api`, whose
    models take long to load.
    """
    return _Assembly(objects, is_live=is_live, readers=readers).snapshot(
        now=now, catalogue=catalogue, options=options, cluster=cluster
    )


class _Assembly:
    """Translates the objects once and collects the problems."""

    def __init__(
        self, objects: Mapping[Resource, Iterable[Any]], *, is_live: bool, readers: ObjectReaders | None
    ) -> None:
        self._objects = {resource: tuple(found) for resource, found in objects.items()}
        self._is_live = is_live
        self._readers = readers
        self._problems: list[ObjectProblem] = []
        self._pods = self._translator()

    def snapshot(
        self, *, now: datetime, catalogue: Catalogue, options: Options, cluster: str
    ) -> tuple[Snapshot, tuple[ObjectProblem, ...]]:
        read = self._readers or _models()
        pods = self._each(kinds.PODS, self._pods.pod, self._pods.unreadable)
        node_classes = self._each(kinds.EC2_NODE_CLASSES, read.node_class, _unusable_class)
        node_pools = self._each(kinds.NODE_POOLS, read.node_pool, _unusable_pool)
        classes = self._each(kinds.STORAGE_CLASSES, storage.storage_class)
        claims = self._each(kinds.PERSISTENT_VOLUME_CLAIMS, storage.volume_claim)
        snapshot = Snapshot(
            now=now,
            cluster=cluster,
            pods=pods,
            nodes=self._nodes(),
            node_claims=self._each(kinds.NODE_CLAIMS, read.node_claim),
            node_pools=self._with_readiness(node_pools, node_classes),
            node_classes=node_classes,
            overlays=self._each(kinds.NODE_OVERLAYS, read.node_overlay),
            buffers=self._buffers(),
            daemon_sets=self._daemon_sets(pods),
            volumes=self._each(kinds.PERSISTENT_VOLUMES, storage.volume),
            volume_claims=storage.with_default_class(claims, classes),
            storage_classes=classes,
            attachments=self._each(kinds.VOLUME_ATTACHMENTS, storage.attachment),
            budgets=self._each(kinds.POD_DISRUPTION_BUDGETS, policies.pod_disruption_budget, _unusable_budget),
            namespaces=self._each(kinds.NAMESPACES, policies.namespace),
            services=self._each(kinds.SERVICES, policies.service),
            workload_selectors=self._selectors(),
            catalogue=catalogue,
            options=options,
        )
        return with_zones(snapshot), tuple(self._problems)

    def _translator(self) -> PodTranslator:
        classes = self._objects.get(kinds.PRIORITY_CLASSES, ())
        defaults = [found.value for found in classes if found.global_default]
        return PodTranslator({found.metadata.name: found.value for found in classes}, max(defaults, default=0))

    def _each(
        self,
        resource: Resource,
        translate: Callable[[Any], T],
        unusable: Callable[[Any, InvalidInputError], T] | None = None,
    ) -> tuple[T, ...]:
        found: list[T] = []
        for position, obj in enumerate(self._objects.get(resource, ())):
            try:
                found.append(translate(obj))
            except InvalidInputError as error:
                subject = _subject(resource, obj)
                self._problems.append(
                    ObjectProblem(
                        resource=resource,
                        position=position,
                        subject=subject,
                        field=error.field,
                        problem=error.problem,
                        is_warning=isinstance(error, NotForUsError),
                    )
                )
                if unusable is not None:
                    found.append(unusable(obj, error))
        return tuple(found)

    def _buffers(self) -> tuple[CapacityBuffer, ...]:
        """Return the buffers whose references can be resolved."""
        return self._each(kinds.CAPACITY_BUFFERS, BufferTranslator(self._objects, self._pods).buffer)

    def _nodes(self) -> tuple[Node, ...]:
        csi_nodes = self._objects.get(kinds.CSI_NODES, ())
        limits = {found.metadata.name: nodes.attach_limits(found) for found in csi_nodes}
        return self._each(
            kinds.NODES, lambda written: nodes.node(written, limits.get(written.metadata.name)), nodes.unreadable_node
        )

    def _daemon_sets(self, pods: tuple[Pod, ...]) -> tuple[DaemonSet, ...]:
        """Return DaemonSets with the spec of their newest pod: admission may have changed the template (Karpenter)."""
        newest: dict[tuple[str, str], Pod] = {}
        for pod in pods:
            for owner in pod.owners if pod.is_daemon and pod.is_active else ():
                present = newest.get((pod.namespace, owner.name))
                if present is None or _age(present) < _age(pod):
                    newest[pod.namespace, owner.name] = pod

        def live(daemon: DaemonSet) -> DaemonSet:
            pod = newest.get((daemon.namespace, daemon.name))
            if pod is None:
                return daemon
            spec = msgspec.structs.replace(
                pod.spec, required_terms=daemon.spec.required_terms, problem=daemon.spec.problem
            )
            return msgspec.structs.replace(daemon, spec=spec)

        templates = self._each(
            kinds.DAEMON_SETS, lambda written: policies.daemon_set(written, self._pods), policies.unreadable_daemon_set
        )
        return tuple(live(daemon) for daemon in templates)

    def _selectors(self) -> tuple[WorkloadSelector, ...]:
        return (
            *self._each(kinds.REPLICA_SETS, lambda found: policies.workload_selector(found, "ReplicaSet")),
            *self._each(kinds.STATEFUL_SETS, lambda found: policies.workload_selector(found, "StatefulSet")),
            *self._each(kinds.DEPLOYMENTS, lambda found: policies.workload_selector(found, "Deployment")),
            *self._each(kinds.REPLICATION_CONTROLLERS, policies.controller_selector),
        )

    def _with_readiness(self, pools: tuple[NodePool, ...], classes: tuple[NodeClass, ...]) -> tuple[NodePool, ...]:
        known = {node_class.name for node_class in classes}
        ready = []
        for position, pool in enumerate(pools):
            if pool.problem or (pool.node_class.name in known and _is_ours(pool.node_class)):
                ready.append(pool)
                continue
            kind = pool.node_class.kind or "EC2NodeClass"
            outcome = "not ready" if self._is_live else "planned with the catalogue; on a cluster it would not be ready"
            self._problems.append(
                ObjectProblem(
                    resource=kinds.NODE_POOLS,
                    position=position,
                    subject=f"NodePool {pool.name}",
                    field="spec.template.spec.nodeClassRef",
                    problem=f"there is no {kind} {pool.node_class.name!r}: {outcome}",
                    is_warning=True,
                )
            )
            ready.append(msgspec.structs.replace(pool, is_ready=False) if self._is_live else pool)
        return tuple(ready)


def _models() -> ObjectReaders:
    from core import api

    return api


def _is_ours(reference: ObjectRef) -> bool:
    """Whether a class is an EC2NodeClass: EKS Auto Mode has NodeClasses of its own, also named `default`."""
    return reference.group in ("", labels.AWS_GROUP) and reference.kind in ("", "EC2NodeClass")


def _unusable_pool(obj: Any, error: InvalidInputError) -> NodePool:
    from core.api.status import annotations_of

    return NodePool(name=_name(obj), problem=_reason(error), own_annotations=annotations_of(obj))


def _unusable_class(obj: Any, error: InvalidInputError) -> NodeClass:
    return NodeClass(name=_name(obj), problem=_reason(error))


def _unusable_budget(obj: Any, _: InvalidInputError) -> PodDisruptionBudget:
    return policies.unreadable_budget(obj)


def _reason(error: InvalidInputError) -> str:
    return ": ".join(part for part in (error.field, error.problem) if part)


def _name(obj: Any) -> str:
    return wire.name_of(obj) if isinstance(obj, dict) else obj.metadata.name


def _subject(resource: Resource, obj: Any) -> str:
    name = _name(obj) or "without a name"
    namespace = "" if isinstance(obj, dict) or not resource.namespaced else obj.metadata.namespace or "default"
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"


def _age(pod: Pod) -> tuple[float, str]:
    return (pod.created_at.timestamp() if pod.created_at is not None else 0.0, pod.name)
