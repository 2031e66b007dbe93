"""Reads PersistentVolumeClaims that are not bound as kube-scheduler does (plugins volumebinding, volumerestrictions)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from core import labels
from core.model.pod import (
    IMMEDIATE,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeRequest,
    default_class,
)
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement, Requirements

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

_WITHOUT_ZONE: Final = (
    "efs.csi.aws.com",
    "fsx.csi.aws.com",
    "fsx.openzfs.csi.aws.com",
    "nfs.csi.k8s.io",
    "s3.csi.aws.com",
)
"""Drivers whose volumes have no node affinity: pods in all zones may share one."""

ClaimKey = tuple[str, str]
"""Namespace and name of a PersistentVolumeClaim."""


class VolumeBinding:
    """The unbound claims of a snapshot's pods, and the free volumes that kube-scheduler would bind them to."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._claims = {(claim.namespace, claim.name): claim for claim in snapshot.volume_claims}
        self._classes = {storage.name: storage for storage in snapshot.storage_classes}
        self._default_class = default_class(snapshot.storage_classes)

    def class_of(self, claim: PersistentVolumeClaim | None, class_name: str | None) -> StorageClass | None:
        """Return the class of a claim, or of one that is yet to be made from a template that names a class."""
        name = claim.storage_class if claim is not None else class_name
        return self._classes.get(self._default_class or "" if name is None else name)

    def free_volume(self, claim: ClaimKey) -> PersistentVolume | None:
        """Return the free volume that is kept for an unbound claim, None if there is none.

        Each waiting claim gets one of its own beforehand: the smallest that fits it and the node affinity of its pod.
        """
        return self._assigned.get(claim)

    def other_user(self, claim: ClaimKey, pod: Pod) -> str:
        """Return a pod that keeps another one from using a ReadWriteOncePod claim, empty if there is none."""
        users = self._exclusive_users.get(claim, ())
        return next((user for user in users[:1] if user != pod.key), "")

    def shared_claims(self, pods: Iterable[Pod]) -> dict[int, tuple[str, ...]]:
        """Return identity of each pod → its unbound claims that further pods use, and whose volume will be in one zone."""
        users: dict[ClaimKey, list[Pod]] = {}
        for pod in pods:
            for name in dict.fromkeys(pod.claim_names()) if pod.spec.volumes else ():
                claim = self._claims.get((pod.namespace, name))
                if claim is not None and self._gets_a_zone(claim):
                    users.setdefault((pod.namespace, name), []).append(pod)
        found: dict[int, tuple[str, ...]] = {}
        for (_, name), sharing in sorted(users.items()):
            for pod in sharing if len(sharing) > 1 else ():
                found[id(pod)] = (*found.get(id(pod), ()), name)
        return found

    def _gets_a_zone(self, claim: PersistentVolumeClaim) -> bool:
        storage = self.class_of(claim, None)
        if claim.volume_name or claim.selected_node or storage is None or storage.binding_mode == IMMEDIATE:
            return False
        return storage.provisioner not in ("", NO_PROVISIONER, *_WITHOUT_ZONE)

    @cached_property
    def _exclusive_users(self) -> Mapping[ClaimKey, tuple[str, ...]]:
        """Return ReadWriteOncePod claim → the pods that use it, first the one that has it or will have it."""
        exclusive = {key for key, claim in self._claims.items() if READ_WRITE_ONCE_POD in claim.request.access_modes}
        users: dict[ClaimKey, list[Pod]] = {}
        for pod in self._snapshot.pods if exclusive else ():
            for name in pod.claim_names() if pod.spec.volumes and not pod.is_terminal else ():
                if (pod.namespace, name) in exclusive:
                    users.setdefault((pod.namespace, name), []).append(pod)
        return {key: tuple(pod.key for pod in sorted(found, key=_turn)) for key, found in users.items()}

    @cached_property
    def _assigned(self) -> Mapping[ClaimKey, PersistentVolume]:
        """Assign free volumes to the unbound claims of waiting pods, in the order of the pods' keys."""
        free = sorted(self._snapshot.volumes, key=lambda volume: (volume.size, volume.name))
        named = {claim.volume_name for claim in self._claims.values()}
        free = [volume for volume in free if volume.is_free and volume.name not in named]
        assigned: dict[ClaimKey, PersistentVolume] = {}
        for pod in sorted(self._snapshot.pods, key=lambda pod: pod.key) if free else ():
            if pod.spec.volumes and not pod.node_name and not pod.is_terminal:
                for key, volume in self._assigned_to(pod, free, assigned):
                    assigned[key] = volume
                    free.remove(volume)
        return assigned

    def _assigned_to(
        self, pod: Pod, free: list[PersistentVolume], assigned: Mapping[ClaimKey, PersistentVolume]
    ) -> list[tuple[ClaimKey, PersistentVolume]]:
        """Return a free volume for each unbound claim of a pod that fits one, such that one node may have them all."""
        where = [Requirements((*pod.spec.node_selector, *term.requirements)) for term in pod.spec.required_terms]
        where = where or [Requirements(pod.spec.node_selector)]
        found: list[tuple[ClaimKey, PersistentVolume]] = []
        for use, name in zip(pod.spec.volumes, pod.claim_names(), strict=True):
            key = (pod.namespace, name)
            claim = self._claims.get(key)
            storage = self.class_of(claim, use.storage_class)
            known = assigned.get(key)
            if known is not None:
                where = list(_where(where, known)) or where
            if known is not None or storage is None or storage.binding_mode == IMMEDIATE:
                continue
            if claim is not None and (claim.volume_name or claim.selected_node):
                continue
            request = claim.request if claim is not None else use.request
            taken = [volume for _, volume in found]
            for volume in _fitting(key, request, storage.name, (one for one in free if one not in taken)):
                here = list(_where(where, volume))
                if here:
                    where = here
                    found.append((key, volume))
                    break
        return found


def _turn(pod: Pod) -> tuple[object, ...]:
    """Sort key of the users of one claim: those on a node first, then as kube-scheduler's queue does."""
    created = pod.created_at.timestamp() if pod.created_at is not None else 0.0
    return (not pod.node_name, -pod.spec.priority, created, pod.key)


def _where(ways: Iterable[Requirements], volume: PersistentVolume) -> Iterator[Requirements]:
    """Return the ways in which a node may meet both these requirements and the volume's."""
    terms = volume.node_terms or (NodeSelectorTerm(),)
    for way in ways:
        for term in terms:
            if way.conflict(Requirements(term.requirements)) is None:
                yield way.merged(term.requirements)


def _fitting(
    claim: ClaimKey, request: VolumeRequest, class_name: str, volumes: Iterable[PersistentVolume]
) -> Iterator[PersistentVolume]:
    """Return the volumes that fit a claim, in the given order; only its own if a volume is kept for it (FindMatchingVolume)."""
    volumes = tuple(volumes)
    own = tuple(volume for volume in volumes if volume.claim == claim)
    for volume in own or volumes:
        is_large_enough = volume.size >= request.size and volume.mode == request.mode
        if own and is_large_enough:
            yield volume
        if volume.claim is not None or not is_large_enough or volume.storage_class != class_name:
            continue
        is_selected = request.selector is None or request.selector.matches(volume.labels)
        if is_selected and set(request.access_modes) <= set(volume.access_modes):
            yield volume


def on_node(name: str) -> Requirements:
    """Return the requirement of a claim for which kube-scheduler has chosen a node (`selected-node`)."""
    return Requirements([Requirement.one_of(labels.NODE_NAME, name)])
