"""Reads PersistentVolumeClaims that are not bound as kube-scheduler does (plugins volumebinding, volumerestrictions)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import msgspec

from core import labels
from core.model.pod import (
    EBS_DRIVER,
    IMMEDIATE,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeRequest,
    VolumeUse,
    default_class,
)
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement, Requirements
from core.reasons.code import Refusal
from core.reasons.pods import VolumeCause, VolumeUnusable

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

_NOT_CREATED: Final = datetime.max.replace(tzinfo=UTC)
"""Sort key of pods without a creation time: they come after all others of their priority."""

ClaimKey = tuple[str, str]
"""Namespace and name of a PersistentVolumeClaim."""

Assignments = frozenset[tuple[ClaimKey, str]]
"""Claims and the names of free volumes that are kept for them."""


class VolumeChoice(msgspec.Struct, frozen=True):
    """Who gets which free volume, after plans in which some pods found no place with theirs.

    Attributes:
        refused: Claims and free volumes that are not assigned to them.
        kept: Claims whose pods have a place → the node affinity of their volumes, which theirs must have again.
        hopeless: Keys of pods that have no place with any volume: they get one last.
        is_open: Whether pods without a place share all other volumes, which shows who is hopeless.
    """

    refused: Assignments = frozenset()
    kept: Mapping[ClaimKey, tuple[NodeSelectorTerm, ...]] = {}
    hopeless: frozenset[str] = frozenset()
    is_open: bool = False


FIRST_CHOICE: Final = VolumeChoice()


class VolumeBinding:
    """The unbound claims of a snapshot's pods, and the free volumes that kube-scheduler would bind them to."""

    def __init__(self, snapshot: Snapshot, choice: VolumeChoice = FIRST_CHOICE) -> None:
        self._snapshot = snapshot
        self._choice = choice
        self._claims = {(claim.namespace, claim.name): claim for claim in snapshot.volume_claims}
        self._classes = {storage.name: storage for storage in snapshot.storage_classes}
        self._default_class = default_class(snapshot.storage_classes)

    def class_of(self, claim: PersistentVolumeClaim | None, class_name: str | None) -> StorageClass | None:
        """Return the class of a claim, or of one that is yet to be made from a template that names a class."""
        name = claim.storage_class if claim is not None else class_name
        return self._classes.get(self._default_class or "" if name is None else name)

    def free_volume(self, claim: ClaimKey) -> PersistentVolume | None:
        """Return the free volume that is kept for an unbound claim, None if there is none.

        Each waiting claim gets its own volume beforehand: the smallest that fits it and the node affinity of its pod.
        """
        volume: PersistentVolume | None = self._assigned.get(claim)
        return volume

    @property
    def is_open(self) -> bool:
        """Whether claims share volumes, so that no plan may be carried out."""
        return self._choice.is_open

    def other_choice(self, waiting: Iterable[Pod], nominated: Iterable[Pod]) -> VolumeChoice | None:
        """Return the next choice, in which pods without a place give up their volumes; None if no volume is kept for them.

        Pods that have a place keep it.
        """
        waiting = [pod for pod in waiting if pod.spec.volumes]
        if self._choice.is_open:
            return msgspec.structs.replace(self._choice, is_open=False, hopeless=frozenset(pod.key for pod in waiting))
        given_up = self.assigned_to((*waiting, *nominated) if waiting else ())
        if not given_up:
            return None
        kept = {key: v.node_terms for key, v in self._assigned.items() if (key, v.name) not in given_up}
        refused = self._choice.refused | given_up
        return VolumeChoice(refused, kept, self._choice.hopeless, is_open=not self._choice.refused)

    def takes_over(self, pod: Pod) -> bool:
        """Whether a pod gets a volume that others gave up: it must not take their places from those that have one."""
        if not (self._choice.refused and pod.spec.volumes):
            return False
        keys = [(pod.namespace, name) for name in pod.claim_names()]
        return any(key in self._assigned and key not in self._choice.kept for key in keys)

    def assigned_to(self, pods: Iterable[Pod]) -> Assignments:
        """Return the unbound claims of pods, each with the free volume that is kept for it."""
        if not self._assigned:
            return frozenset()
        keys = ((pod.namespace, name) for pod in pods if pod.spec.volumes for name in pod.claim_names())
        return frozenset((key, self._assigned[key].name) for key in keys if key in self._assigned)

    def is_exclusive(self, claim: ClaimKey) -> bool:
        """Whether one pod at a time may use a claim."""
        claim_object = self._claims.get(claim)
        return claim_object is not None and READ_WRITE_ONCE_POD in claim_object.request.access_modes

    def other_user(self, claim: ClaimKey, pod: Pod) -> str:
        """Return a pod on a node that keeps another one from using a ReadWriteOncePod claim, empty if there is none."""
        return next((user for user in self._exclusive_users.get(claim, ()) if user != pod.key), "")

    def shared_claims(self, pods: Iterable[Pod]) -> dict[int, tuple[str, ...]]:
        """Return identity of each pod → its unbound claims that further pods use, and whose volume will be in one zone."""
        users: dict[ClaimKey, list[Pod]] = {}
        for pod in pods:
            for name in dict.fromkeys(pod.claim_names()) if pod.spec.volumes else ():
                claim = self._claims.get((pod.namespace, name))
                if claim is not None and self._gets_a_zone(claim):
                    users.setdefault((pod.namespace, name), []).append(pod)
        claims: dict[int, tuple[str, ...]] = {}
        for (_, name), sharing in sorted(users.items()):
            for pod in sharing if len(sharing) > 1 else ():
                claims[id(pod)] = (*claims.get(id(pod), ()), name)
        return claims

    def _gets_a_zone(self, claim: PersistentVolumeClaim) -> bool:
        storage = self.class_of(claim, None)
        if claim.volume_name or claim.selected_node or storage is None or storage.binding_mode == IMMEDIATE:
            return False
        return storage.provisioner not in ("", NO_PROVISIONER, *_WITHOUT_ZONE)

    @cached_property
    def _exclusive_users(self) -> Mapping[ClaimKey, tuple[str, ...]]:
        """Return ReadWriteOncePod claim → the pods on nodes that use it, sorted."""
        exclusive = set(filter(self.is_exclusive, self._claims))
        users: dict[ClaimKey, list[str]] = {}
        for pod in self._snapshot.pods if exclusive else ():
            for name in pod.claim_names() if pod.spec.volumes and pod.node_name and not pod.is_terminal else ():
                if (pod.namespace, name) in exclusive:
                    users.setdefault((pod.namespace, name), []).append(pod.key)
        return {key: tuple(sorted(pods)) for key, pods in users.items()}

    @cached_property
    def _assigned(self) -> Mapping[ClaimKey, PersistentVolume]:
        """Assign free volumes to the unbound claims of waiting pods, in the order in which kube-scheduler takes these.

        Pods that have a place with theirs come first, and those that have none with any volume last.
        """
        free = sorted(self._snapshot.volumes, key=lambda volume: (volume.size, volume.name))
        named = {claim.volume_name for claim in self._claims.values()}
        hosts = _hostnames(self._snapshot)
        # kube-scheduler binds a local volume on its own host alone.
        free = [
            v for v in free if v.is_free and v.name not in named and not (v.is_local and _is_without_host(v, hosts))
        ]
        users = [pod for pod in self._snapshot.pods if pod.spec.volumes and _is_scheduled_next(pod)]
        assigned: dict[ClaimKey, PersistentVolume] = {}
        for pod in sorted(users, key=self._turn) if free else ():
            for key, volume in self._assigned_to(pod, free, assigned):
                assigned[key] = volume
                if volume in free:
                    free.remove(volume)
        return assigned

    def _turn(self, pod: Pod) -> tuple[object, ...]:
        keeps = any((pod.namespace, name) in self._choice.kept for name in pod.claim_names())
        age = (pod.created_at or _NOT_CREATED, pod.key)
        return (not keeps, pod.key in self._choice.hopeless, -pod.spec.priority, *age)

    def _assigned_to(
        self, pod: Pod, free: list[PersistentVolume], assigned: Mapping[ClaimKey, PersistentVolume]
    ) -> list[tuple[ClaimKey, PersistentVolume]]:
        """Return a free volume for each unbound claim of a pod that fits one, such that one node may have them all."""
        where = [Requirements((*pod.spec.node_selector, *term.requirements)) for term in pod.spec.required_terms]
        where = where or [Requirements(pod.spec.node_selector)]
        chosen: list[tuple[ClaimKey, PersistentVolume]] = []
        for use, name in zip(pod.spec.volumes, pod.claim_names(), strict=True):
            key = (pod.namespace, name)
            claim = self._claims.get(key)
            storage = self.class_of(claim, use.storage_class)
            assigned_volume = assigned.get(key)
            if assigned_volume is not None:
                where = list(_where(where, assigned_volume)) or where
            if assigned_volume is not None or storage is None or storage.binding_mode == IMMEDIATE:
                continue
            if claim is not None and (claim.volume_name or claim.selected_node):
                continue
            request = claim.request if claim is not None else use.request
            taken = [volume for _, volume in chosen]
            others = (candidate for candidate in free if candidate not in taken and self._may_have(key, candidate))
            fitting = _fitting(key, request, storage.name, others)
            if self._choice.is_open and key not in self._choice.kept:
                fitting = _in_one(key, fitting)
            for volume in fitting:
                here = list(_where(where, volume))
                if here:
                    where = here
                    chosen.append((key, volume))
                    break
        return chosen

    def _may_have(self, claim: ClaimKey, volume: PersistentVolume) -> bool:
        if (claim, volume.name) in self._choice.refused:
            return False
        kept = self._choice.kept.get(claim)
        return kept is None or kept == volume.node_terms


def _in_one(claim: ClaimKey, volumes: Iterable[PersistentVolume]) -> Iterator[PersistentVolume]:
    """Return a volume that may be wherever one of these is, if there is any."""
    several = list(volumes)
    if several:
        anywhere = any(not volume.node_terms for volume in several)
        terms = () if anywhere else tuple(dict.fromkeys(term for volume in several for term in volume.node_terms))
        yield msgspec.structs.replace(several[0], name="/".join(claim), node_terms=terms)


def _is_scheduled_next(pod: Pod) -> bool:
    """Whether kube-scheduler looks for a node for a pod: neither for one with scheduling gates nor for one that ends."""
    return pod.is_active and not pod.node_name and not pod.is_gated


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
    possible = [
        volume
        for volume in volumes
        if volume.size >= request.size
        and volume.mode == request.mode
        and volume.attributes_class == request.attributes_class
    ]
    prebound = [volume for volume in possible if volume.claim == claim]
    yield from prebound
    for volume in () if prebound else possible:
        if volume.claim is not None or volume.storage_class != class_name:
            continue
        is_selected = request.selector is None or request.selector.matches(volume.labels)
        if is_selected and set(request.access_modes) <= set(volume.access_modes):
            yield volume


def _hostnames(snapshot: Snapshot) -> Collection[str]:
    return dict.fromkeys(node.labels.get(labels.HOSTNAME, node.name) for node in snapshot.nodes)


def _is_without_host(volume: PersistentVolume, hosts: Collection[str]) -> bool:
    """Whether each term of the volume demands a host that is gone."""
    return bool(volume.node_terms) and not any(
        all(_has_host(requirement, hosts) for requirement in term.requirements) for term in volume.node_terms
    )


def _has_host(requirement: Requirement, hosts: Collection[str]) -> bool:
    return requirement.key != labels.HOSTNAME or any(map(requirement.has, hosts))


def on_node(name: str) -> Requirements:
    """Return the requirement of a claim for which kube-scheduler has chosen a node (`selected-node`)."""
    return Requirements([Requirement.one_of(labels.NODE_NAME, name)])


# The needs of pods that follow from their volumes.


_ALTERNATIVES_MAX: Final = 64

Alternatives = tuple[Requirements, ...]


class VolumeNeeds(msgspec.Struct, frozen=True, cache_hash=True):
    """The demands of a pod's volumes on its node.

    Attributes:
        alternatives: Alternative node requirements; a single empty one without volumes.
        attachments: (CSI driver, volume) for each volume to attach, sorted; a volume that pods share appears once per node.
        inline: EBS volumes that the pod itself names, sorted: one pod of a node uses each.
        exclusive: Namespace and name of each ReadWriteOncePod claim: of the pods of a plan, one gets it.
        refusal: Why the pod cannot run until its volumes are repaired; None if it can.
        is_group: Whether a group's domain alone is in the alternatives: it says where the pod may move, and no volume follows.
    """

    alternatives: Alternatives = (Requirements(),)
    attachments: tuple[tuple[str, str], ...] = ()
    inline: tuple[tuple[str, str], ...] = ()
    exclusive: tuple[str, ...] = ()
    refusal: Refusal | None = None
    is_group: bool = False

    def restricted_to(self, pin: Requirements) -> VolumeNeeds:
        """Return the same needs on nodes that also meet the pin."""
        if self.refusal is not None:
            return self
        alternatives = tuple(_product(self.alternatives, (pin,)))
        return msgspec.structs.replace(self, alternatives=alternatives or (pin,))


NO_VOLUMES: Final = VolumeNeeds()


class VolumeIndex:
    """Claims, volumes and classes by name, and the needs of pods that follow from them (Karpenter, volume topology)."""

    def __init__(self, snapshot: Snapshot, choice: VolumeChoice = FIRST_CHOICE) -> None:
        self._claims = {(claim.namespace, claim.name): claim for claim in snapshot.volume_claims}
        self._volumes = {volume.name: volume for volume in snapshot.volumes}
        self._classes = {storage.name: storage for storage in snapshot.storage_classes}
        self._default_class = default_class(snapshot.storage_classes)
        self._hosts = _hostnames(snapshot)
        self.binding = VolumeBinding(snapshot, choice)

    @property
    def reads_node_names(self) -> bool:
        """Whether a claim waits on one node, by name."""
        return any(claim.selected_node and not claim.volume_name for claim in self._claims.values())

    def label_keys(self) -> set[str]:
        """Return node labels that any volume or class refers to."""
        terms = [term for volume in self._volumes.values() for term in volume.node_terms]
        terms += [term for storage in self._classes.values() for term in storage.allowed_topologies]
        return {r.key for term in terms for r in term.requirements}

    def driver_of(self, volume_name: str) -> str:
        """Return the CSI driver of a PersistentVolume, empty if it has none or is unknown."""
        volume = self._volumes.get(volume_name)
        return volume.driver if volume is not None else ""

    def needs(self, pod: Pod, *, is_moved: bool = False) -> VolumeNeeds:
        """Return the needs of the pod's volumes; a moved pod's generic ephemeral ones are new, wherever the old ones are."""
        if not pod.spec.volumes:
            return NO_VOLUMES
        merged: Alternatives = (Requirements(),)
        attachments: set[tuple[str, str]] = set()
        inline: set[tuple[str, str]] = set()
        exclusive: set[str] = set()
        for use, name in zip(pod.spec.volumes, pod.claim_names(), strict=True):
            claim_needs = self._needs_of(pod.namespace, name, use)
            if is_moved and use.ephemeral:
                new = self._unbound(pod.namespace, name, use.storage_class)
                claim_needs = (
                    new if new.refusal is None else claim_needs
                )  # where an Immediate class makes the next one is not known
            if claim_needs.refusal is not None:
                return claim_needs
            other = self.binding.other_user((pod.namespace, name), pod)
            if other:
                return _unusable(VolumeCause.USED_BY, f"{pod.namespace}/{name}", other)
            attachments.update(claim_needs.attachments)
            inline.update(claim_needs.inline)
            if self.binding.is_exclusive((pod.namespace, name)):
                exclusive.add(f"{pod.namespace}/{name}")
            merged = tuple(_product(merged, claim_needs.alternatives))
            if not merged:
                return _unusable(VolumeCause.EXCLUDES_OTHERS, name)
        return VolumeNeeds(merged, tuple(sorted(attachments)), tuple(sorted(inline)), tuple(sorted(exclusive)))

    def volumes_that_demand(self, pod: Pod, key: str) -> list[str]:
        """Return the pod's claims whose volumes or classes require a label, each with its volume if it has one."""
        demands = []
        for use, name in zip(pod.spec.volumes, pod.claim_names(), strict=True):
            if any(key in way for way in self._needs_of(pod.namespace, name, use).alternatives):
                claim = self._claims.get((pod.namespace, name))
                volume = f" (volume {claim.volume_name})" if claim is not None and claim.volume_name else ""
                demands.append(f"PersistentVolumeClaim {pod.namespace}/{name}{volume}")
        return demands

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
        if use.inline:
            volume = (EBS_DRIVER, use.inline)  # migrated to CSI (nodevolumelimits/csi.go)
            return VolumeNeeds(attachments=(volume,), inline=(volume,))
        claim = self._claims.get((namespace, name))
        if claim is None:
            if use.ephemeral:
                return self._unbound(namespace, name, use.storage_class)
            return _unusable(VolumeCause.CLAIM_MISSING, f"{namespace}/{name}")
        if claim.is_terminating:
            return _unusable(VolumeCause.CLAIM_GOES, f"{namespace}/{name}")
        if claim.phase == "Lost":
            return _unusable(VolumeCause.CLAIM_LOST, f"{namespace}/{name}")
        if claim.volume_name:
            return self._bound(claim)
        claim_needs = self._unbound(namespace, name, claim.storage_class)
        # The provisioner makes the volume for that node alone (volumebinding/binder.go).
        return claim_needs.restricted_to(on_node(claim.selected_node)) if claim.selected_node else claim_needs

    def _bound(self, claim: PersistentVolumeClaim) -> VolumeNeeds:
        name = f"{claim.namespace}/{claim.name}"
        volume = self._volumes.get(claim.volume_name)
        if volume is None:
            return _unusable(VolumeCause.VOLUME_MISSING, name, claim.volume_name)
        if volume.is_terminating:
            return _unusable(VolumeCause.VOLUME_GOES, name, volume.name)
        if not claim.is_bind_completed and claim.phase != "Bound":
            return _unusable(VolumeCause.BINDS, name, volume.name)
        attached = ((volume.driver, volume.name),) if volume.driver else ()
        return VolumeNeeds(self._volume_alternatives(volume), attached)

    def _volume_alternatives(self, volume: PersistentVolume) -> Alternatives:
        """Return the volume's node affinity.

        The hostname of a local or hostPath volume holds while that node exists; then it is ignored (Karpenter).
        """
        if not volume.is_local:
            return _term_alternatives(volume.node_terms)
        terms = (tuple(r for r in term.requirements if _has_host(r, self._hosts)) for term in volume.node_terms)
        return _term_alternatives(map(NodeSelectorTerm, terms))

    def _unbound(self, namespace: str, name: str, class_name: str | None) -> VolumeNeeds:
        claim = f"{namespace}/{name}"
        wanted = class_name if class_name is not None else self._default_class
        if wanted is None:
            return _unusable(VolumeCause.NO_CLASS, claim)
        if wanted == "":
            return _unusable(VolumeCause.MADE_BY_HAND, claim)
        storage = self._classes.get(wanted)
        if storage is None:
            return _unusable(VolumeCause.CLASS_MISSING, claim, wanted)
        if storage.binding_mode == IMMEDIATE:
            return _unusable(VolumeCause.BINDS_AT_ONCE, claim, wanted)
        driver = storage.provisioner
        free = self.binding.free_volume((namespace, name))
        where = _term_alternatives(free.node_terms) if free is not None else ()
        if driver in ("", NO_PROVISIONER):
            if free is None:
                return _unusable(VolumeCause.NO_FREE_VOLUME, claim, wanted)
            return VolumeNeeds(where, ((free.driver, free.name),) if free.driver else ())
        made = _term_alternatives(storage.allowed_topologies)
        return VolumeNeeds(tuple(dict.fromkeys((*where, *made))), ((driver, claim),))


def _unusable(cause: VolumeCause, claim: str, other: str = "") -> VolumeNeeds:
    return VolumeNeeds(refusal=VolumeUnusable(cause, claim, other))


def _term_alternatives(terms: Iterable[NodeSelectorTerm]) -> Alternatives:
    alternatives = [Requirements(term.requirements) for term in terms]
    return tuple(dict.fromkeys(alternatives)) or (Requirements(),)


def _product(alternatives: Alternatives, others: Alternatives) -> Iterator[Requirements]:
    produced: dict[Requirements, None] = {}
    for first in alternatives:
        for second in others:
            if first.conflict(second) is None and len(produced) < _ALTERNATIVES_MAX:
                produced[first.merged(second.values())] = None
    return iter(produced)
