"""Reads the Kubernetes objects of an observation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from adapters.observation.current_node_classes import CurrentNodeClasses
from adapters.ports import Clock, JsonObject, Kubernetes
from core.api.objects import name_of
from core.manifests.assemble import ObjectProblem
from core.manifests.buffers import needed_kinds
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from core.model.pod import Pod
from installation.settings import Settings

UNBOUND: Final = "spec.nodeName=,status.phase=Pending"
"""Field selector: pods without a node."""

_ALWAYS: Final = (
    kinds.NODES,
    kinds.NODE_POOLS,
    kinds.EC2_NODE_CLASSES,
    kinds.DAEMON_SETS,
    kinds.POD_DISRUPTION_BUDGETS,
    kinds.NAMESPACES,
    kinds.PRIORITY_CLASSES,
)
_MARKET: Final = (kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES)
_FOR_VOLUMES: Final = (
    kinds.PERSISTENT_VOLUMES,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.STORAGE_CLASSES,
    kinds.CSI_NODES,
    kinds.VOLUME_ATTACHMENTS,
)
_FOR_DEFAULT_SPREADS: Final = (
    kinds.SERVICES,
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    kinds.REPLICATION_CONTROLLERS,
)
"""The kinds that determine which pods a default constraint selects."""

ObjectsByKind = dict[Resource, tuple[Any, ...]]


@dataclass(frozen=True)
class ClusterObjects:
    """Objects that were read for one observation.

    Attributes:
        by_kind: The objects of each kind; each EC2NodeClass has a status that matches its current spec.
        node_classes: The EC2NodeClasses, for callers that launch from them or write their status.
        rejected: What is wrong with objects that could not be decoded.
    """

    by_kind: ObjectsByKind
    node_classes: tuple[JsonObject, ...]
    rejected: tuple[ObjectProblem, ...] = ()

    def node_pools(self) -> dict[str, JsonObject]:
        """Return the NodePools by name."""
        return _by_name(self.by_kind[kinds.NODE_POOLS])

    def node_classes_by_name(self) -> dict[str, JsonObject]:
        """Return the EC2NodeClasses by name."""
        return _by_name(self.node_classes)


class ClusterReader:
    """Reads the objects that an observation needs.

    Args:
        current: Gives edited EC2NodeClasses a status of their current spec.
    """

    def __init__(self, kubernetes: Kubernetes, settings: Settings, clock: Clock, current: CurrentNodeClasses) -> None:
        self._kubernetes = kubernetes
        self._settings = settings
        self._clock = clock
        self._current = current

    def without_pods(self) -> ClusterObjects:
        """Read nodes, NodePools and EC2NodeClasses. Raises PortError."""
        rejected: list[ObjectProblem] = []
        objects = {kind: self._read(kind, rejected) for kind in (kinds.NODES, *_MARKET)}
        node_classes = self._with_current_classes(objects)
        return ClusterObjects(objects, node_classes, tuple(rejected))

    def complete(self) -> ClusterObjects:
        """Read all kinds that decisions need under the current options and pods. Raises PortError.

        Nodes are read before pods, so that pods which are bound in between count. Kinds that only volumes need are skipped if
        no pod has one.
        """
        rejected: list[ObjectProblem] = []
        options = self._settings.options()
        objects = {kind: self._read(kind, rejected) for kind in _ALWAYS}
        node_classes = self._with_current_classes(objects)
        objects[kinds.PODS] = self._read(kinds.PODS, rejected)
        if _have_volumes(objects[kinds.PODS]):
            objects |= {kind: self._read(kind, rejected) for kind in _FOR_VOLUMES}
        if self._settings.is_shadow:
            objects[kinds.NODE_CLAIMS] = self._read(kinds.NODE_CLAIMS, rejected)
        if options.feature_gates.node_overlay:
            objects[kinds.NODE_OVERLAYS] = self._read(kinds.NODE_OVERLAYS, rejected)
        if options.feature_gates.capacity_buffer:
            objects[kinds.CAPACITY_BUFFERS] = self._read(kinds.CAPACITY_BUFFERS, rejected)
            objects |= {kind: self._read(kind, rejected) for kind in needed_kinds(objects[kinds.CAPACITY_BUFFERS])}
        if options.default_spreads:
            objects |= {kind: self._read(kind, rejected) for kind in _FOR_DEFAULT_SPREADS if kind not in objects}
        return ClusterObjects(objects, node_classes, tuple(rejected))

    def for_launches(self) -> ClusterObjects:
        """Read what decides about offerings: NodePools, EC2NodeClasses and NodeOverlays. Raises PortError."""
        objects = {kind: self._list(kind) for kind in _MARKET}
        node_classes = self._with_current_classes(objects)
        if self._settings.options().feature_gates.node_overlay:
            objects[kinds.NODE_OVERLAYS] = self._list(kinds.NODE_OVERLAYS)
        return ClusterObjects(objects, node_classes)

    def for_default_spreads(self) -> ObjectsByKind:
        """Read what determines which pods a default constraint selects. Raises PortError."""
        return {kind: self._list(kind) for kind in _FOR_DEFAULT_SPREADS}

    def pods(self, fields: str) -> tuple[Pod, ...]:
        """Return the pods that a field selector selects.

        PriorityClasses are not read, so pods have only their own priorities.
        """
        translator = PodTranslator()
        return tuple(map(translator.readable_or_not, self._kubernetes.list(kinds.PODS, fields=fields).items))

    def has_buffers(self) -> bool:
        """Whether there are capacity buffers, and their gate is on."""
        return self._settings.options().feature_gates.capacity_buffer and bool(self._list(kinds.CAPACITY_BUFFERS))

    def node_class(self, name: str) -> JsonObject:
        """Return one EC2NodeClass manifest. Raises NotFoundError."""
        found: JsonObject = self._kubernetes.get(kinds.EC2_NODE_CLASSES, name)
        return found

    def _with_current_classes(self, objects: ObjectsByKind) -> tuple[JsonObject, ...]:
        """Give each EC2NodeClass a status that matches its current spec.

        Returns:
            The classes, for callers that launch from them or write their status.
        """
        written = objects[kinds.EC2_NODE_CLASSES]
        current = objects[kinds.EC2_NODE_CLASSES] = self._current.all(
            written, self._clock.now(), objects[kinds.NODE_POOLS]
        )
        return current if self._current.resolves else written

    def _list(self, kind: Resource) -> tuple[Any, ...]:
        return self._kubernetes.list(kind).items

    def _read(self, kind: Resource, rejected: list[ObjectProblem]) -> tuple[Any, ...]:
        """Return the objects of a kind; unreadable ones are named in `rejected`."""
        listing = self._kubernetes.list(kind)
        rejected += [
            ObjectProblem(resource=kind, position=-1, subject=f"{kind.kind} {name}", field="", problem=why)
            for name, why in listing.rejected
        ]
        return listing.items


def _have_volumes(pods: Iterable[Any]) -> bool:
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None
        for pod in pods
        for volume in pod.spec.volumes
    )


def _by_name(manifests: Iterable[JsonObject]) -> dict[str, JsonObject]:
    return {name_of(manifest): manifest for manifest in sorted(manifests, key=name_of)}
