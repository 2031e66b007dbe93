"""Determines where a pod may run because of its volumes, and which attachments they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from core import labels
from core.model.pod import NodeSelectorTerm, Pod, VolumeUse
from core.model.snapshot import Snapshot
from core.model.storage import IMMEDIATE, PersistentVolume, PersistentVolumeClaim, default_class
from core.model.values.requirements import Requirements
from core.reasons.pod import PodReason

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ALTERNATIVES_MAX: Final = 64

Alternatives = tuple[Requirements, ...]


class VolumeNeeds(msgspec.Struct, frozen=True, cache_hash=True):
    """The demands of a pod's volumes on its node.

    Attributes:
        alternatives: Alternative node requirements; a single empty one without volumes.
        attachments: (CSI driver, volume) for each volume to attach, sorted; a volume that pods share appears once per node.
        reason, message: Set if the pod cannot run until its volumes are repaired.
    """

    alternatives: Alternatives = (Requirements(),)
    attachments: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    message: str = ""

    def restricted_to(self, pin: Requirements) -> VolumeNeeds:
        """Return the same needs on nodes that also meet the pin."""
        if self.reason:
            return self
        alternatives = tuple(_product(self.alternatives, (pin,)))
        return msgspec.structs.replace(self, alternatives=alternatives or (pin,))


NO_VOLUMES: Final = VolumeNeeds()


class VolumeIndex:
    """Claims, volumes and classes by name, and the needs of pods that follow from them (Karpenter, volume topology)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._claims = {(claim.namespace, claim.name): claim for claim in snapshot.volume_claims}
        self._volumes = {volume.name: volume for volume in snapshot.volumes}
        self._classes = {storage.name: storage for storage in snapshot.storage_classes}
        self._default_class = default_class(snapshot.storage_classes)

    def label_keys(self) -> set[str]:
        """Return node labels that any volume or class refers to."""
        terms = [term for volume in self._volumes.values() for term in volume.node_terms]
        terms += [term for storage in self._classes.values() for term in storage.allowed_topologies]
        return {r.key for term in terms for r in term.requirements}

    def driver_of(self, volume_name: str) -> str:
        """Return the CSI driver of a PersistentVolume, empty if it has none or is unknown."""
        volume = self._volumes.get(volume_name)
        return volume.driver if volume is not None else ""

    def needs(self, pod: Pod) -> VolumeNeeds:
        """Return the needs of the pod's volumes."""
        if not pod.spec.volumes:
            return NO_VOLUMES
        merged: Alternatives = (Requirements(),)
        attachments: set[tuple[str, str]] = set()
        for use, name in zip(pod.spec.volumes, pod.claim_names(), strict=True):
            one = self._needs_of(pod.namespace, name, use)
            if one.reason:
                return one
            attachments.update(one.attachments)
            merged = tuple(_product(merged, one.alternatives))
            if not merged:
                return VolumeNeeds(
                    reason=PodReason.VOLUMES_DISAGREE, message=f"claim {name} excludes the volumes before it"
                )
        return VolumeNeeds(merged, tuple(sorted(attachments)))

    def volumes_that_demand(self, pod: Pod, key: str) -> list[str]:
        """Return the pod's claims whose volumes or classes require a label, each with its volume if it has one."""
        found = []
        for use, name in zip(pod.spec.volumes, pod.claim_names(), strict=True):
            if any(key in way for way in self._needs_of(pod.namespace, name, use).alternatives):
                claim = self._claims.get((pod.namespace, name))
                volume = f" (volume {claim.volume_name})" if claim is not None and claim.volume_name else ""
                found.append(f"PersistentVolumeClaim {pod.namespace}/{name}{volume}")
        return found

    def attachments(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        """Return the attachments of a running pod, for its known claims; a claim being deleted still counts."""
        uses = zip(pod.spec.volumes, pod.claim_names(), strict=True)
        return tuple(sorted(a for use, name in uses for a in self._attachments(pod.namespace, name, use)))

    def _attachments(self, namespace: str, name: str, use: VolumeUse) -> tuple[tuple[str, str], ...]:
        claim = self._claims.get((namespace, name))
        driver = self.driver_of(claim.volume_name) if claim is not None else ""
        if claim is not None and driver:
            return ((driver, claim.volume_name),)
        return self._needs_of(namespace, name, use).attachments

    def _needs_of(self, namespace: str, name: str, use: VolumeUse) -> VolumeNeeds:
        claim = self._claims.get((namespace, name))
        if claim is None:
            if use.ephemeral:
                return self._unbound(namespace, name, use.storage_class)
            return _problem(PodReason.VOLUME_CLAIM_MISSING, f"PersistentVolumeClaim {namespace}/{name} does not exist")
        if claim.is_terminating:
            return _problem(
                PodReason.VOLUME_CLAIM_TERMINATING, f"PersistentVolumeClaim {namespace}/{name} is being deleted"
            )
        if claim.phase == "Lost":
            return _problem(PodReason.VOLUME_CLAIM_LOST, f"PersistentVolumeClaim {namespace}/{name} lost its volume")
        return self._bound(claim) if claim.volume_name else self._unbound(namespace, name, claim.storage_class)

    def _bound(self, claim: PersistentVolumeClaim) -> VolumeNeeds:
        subject = f"PersistentVolumeClaim {claim.namespace}/{claim.name}"
        volume = self._volumes.get(claim.volume_name)
        if volume is None:
            return _problem(
                PodReason.VOLUME_MISSING, f"{subject} is bound to {claim.volume_name}, which does not exist"
            )
        if volume.is_terminating:
            return _problem(PodReason.VOLUME_CLAIM_TERMINATING, f"volume {volume.name} of {subject} is being deleted")
        if not claim.is_bind_completed and claim.phase != "Bound":
            return _problem(
                PodReason.VOLUME_CLAIM_UNBOUND, f"{subject} names {volume.name}, but binding has not completed"
            )
        attached = ((volume.driver, volume.name),) if volume.driver else ()
        return VolumeNeeds(_volume_alternatives(volume), attached)

    def _unbound(self, namespace: str, name: str, class_name: str | None) -> VolumeNeeds:
        subject = f"PersistentVolumeClaim {namespace}/{name}"
        wanted = class_name if class_name is not None else self._default_class
        if wanted is None:
            return _problem(
                PodReason.STORAGE_CLASS_MISSING, f"{subject} names no StorageClass and there is no default StorageClass"
            )
        if wanted == "":
            return _problem(PodReason.VOLUME_CLAIM_UNBOUND, f"{subject} waits for a volume that is made by hand")
        storage = self._classes.get(wanted)
        if storage is None:
            return _problem(PodReason.STORAGE_CLASS_MISSING, f"StorageClass {wanted} of {subject} does not exist")
        if storage.binding_mode == IMMEDIATE:
            return _problem(
                PodReason.VOLUME_CLAIM_UNBOUND, f"{subject} binds at once ({wanted}), which has not happened yet"
            )
        driver = storage.provisioner
        attached = () if driver in ("", _NO_PROVISIONER) else ((driver, f"{namespace}/{name}"),)
        return VolumeNeeds(_term_alternatives(storage.allowed_topologies), attached)


def _problem(reason: str, message: str) -> VolumeNeeds:
    return VolumeNeeds(reason=reason, message=message)


def _volume_alternatives(volume: PersistentVolume) -> Alternatives:
    """Return the volume's node affinity; hostname terms of a local or hostPath volume are ignored (Karpenter)."""
    if not volume.is_local:
        return _term_alternatives(volume.node_terms)
    freed = (
        NodeSelectorTerm(tuple(r for r in term.requirements if r.key != labels.HOSTNAME)) for term in volume.node_terms
    )
    return _term_alternatives(freed)


def _term_alternatives(terms: Iterable[NodeSelectorTerm]) -> Alternatives:
    found = [Requirements(term.requirements) for term in terms]
    return tuple(dict.fromkeys(found)) or (Requirements(),)


def _product(left: Alternatives, right: Alternatives) -> Iterator[Requirements]:
    produced: dict[Requirements, None] = {}
    for first in left:
        for second in right:
            if first.conflict(second) is None and len(produced) < _ALTERNATIVES_MAX:
                produced[first.merged(second.values())] = None
    return iter(produced)
