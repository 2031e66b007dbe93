"""What one node and its pods must agree on: labels, taints, resources, host ports, volumes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from core import labels
from core.model.pod import HostPort, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, VolumeUse
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from tests.property.naive.places import Face, Place
from tests.property.naive.reading import Labels, meets_all, tolerates, wants_node

EBS = "ebs.csi.aws.com"


def node_violations(snapshot: Snapshot, place: Place) -> Iterator[str]:
    """Every node rule that the pods planned for a place break."""
    if not place.coming:
        return
    if place.is_leaving:
        yield f"leaving: {place.coming[0].key} is put on {place.name}, which is going"
    for pod in place.coming:
        if not tolerates(pod.spec.tolerations, place.taints):
            yield f"taint: {pod.key} does not tolerate {place.name}"
    for face in place.faces:
        kind = face.instance_type.name if face.instance_type else "it"
        for problem in face_problems(snapshot, place, face, place.coming):
            yield f"{problem} on {place.name} as {kind} in {face.labels.get(labels.ZONE)}"


def face_problems(snapshot: Snapshot, place: Place, face: Face, coming: list[Pod]) -> Iterator[str]:
    """Why pods may not run on one concrete node; taints aside."""
    for pod in coming:
        if not wants_node(pod.spec, face.labels):
            yield f"selector: {pod.key} does not want it"
        if not volumes_reach(snapshot, pod, face.labels):
            yield f"volume: {pod.key} cannot have its volumes"
    everyone = [*place.running, *coming]
    needed = _needed(everyone, face)
    for name in sorted(needed):
        if needed[name] > face.room.get(name, 0) and any(pod.spec.requests.get(name, 0) for pod in coming):
            yield f"room: {name} {needed[name]} of {face.room.get(name, 0)}"
    yield from _port_clashes(everyone, face, coming)
    yield from _attachment_problems(snapshot, place, face, everyone, coming)


def is_overfull(place: Place, face: Face, pod: Pod) -> bool:
    """Whether any resource is short with one pod more, requested or not (Karpenter: such a node takes no pod)."""
    needed = _needed([*place.running, *place.coming, pod], face)
    return any(amount > face.room.get(name, 0) for name, amount in needed.items())


def _needed(pods: Iterable[Pod], face: Face) -> dict[str, int]:
    total: dict[str, int] = {}
    for spec in [*(pod.spec for pod in pods), *(daemon.spec for daemon in face.daemons)]:
        for name, amount in {"pods": 1, **spec.requests}.items():
            total[name] = total.get(name, 0) + amount
    return total


def _port_clashes(everyone: list[Pod], face: Face, coming: list[Pod]) -> Iterator[str]:
    taken = [(pod.key, port) for pod in everyone for port in pod.spec.host_ports]
    taken += [(daemon.name, port) for daemon in face.daemons for port in daemon.spec.host_ports]
    newcomers = {pod.key for pod in coming}
    for name, port in taken:
        for other, theirs in taken:
            if name in newcomers and other != name and clash(port, theirs):
                yield f"port: {name} and {other} both take {port.port}"


def clash(first: HostPort, second: HostPort) -> bool:
    """Whether two host ports conflict on one node."""
    if (first.port, first.protocol) != (second.port, second.protocol):
        return False
    every = ("", "0.0.0.0")  # noqa: S104 - Kubernetes' own notation
    return first.host_ip == second.host_ip or first.host_ip in every or second.host_ip in every


def _attachment_problems(
    snapshot: Snapshot, place: Place, face: Face, everyone: list[Pod], coming: list[Pod]
) -> Iterator[str]:
    drivers = {driver for pod in coming for driver, _ in attachments(snapshot, pod)}
    held = {attachment for pod in everyone for attachment in attachments(snapshot, pod)}
    for attachment in snapshot.attachments:
        volume = _volume(snapshot, attachment.volume_name)
        if attachment.node_name == place.name and volume is not None and volume.driver:
            held.add((volume.driver, volume.name))
    limits = dict(place.attach_limits)
    if face.instance_type is not None and face.instance_type.attach_limit is not None:
        limits[EBS] = face.instance_type.attach_limit
    for driver in sorted(drivers):
        count = sum(1 for held_driver, _ in held if held_driver == driver)
        if driver in limits and count > limits[driver]:
            yield f"attach: {count} volumes of {driver}, {limits[driver]} allowed"


def volume_fault(snapshot: Snapshot, pod: Pod) -> str:
    """Why a pod cannot run until its volumes are repaired; empty if it can."""
    for use, name in zip(pod.spec.volumes, pod.claim_names(), strict=True):
        claim = _claim(snapshot, pod.namespace, name)
        if claim is None and not use.ephemeral:
            return "claim missing"
        if claim is not None and (claim.is_terminating or claim.phase == "Lost"):
            return "claim lost or going"
        if claim is not None and claim.volume_name:
            volume = _volume(snapshot, claim.volume_name)
            if volume is None or volume.is_terminating:
                return "volume missing or going"
            continue
        storage = _class(snapshot, use, claim)
        if storage is None or storage.binding_mode == "Immediate":
            return "nobody will make the volume"
    return ""


def volumes_reach(snapshot: Snapshot, pod: Pod, labels_of_node: Labels) -> bool:
    """Whether every volume of the pod is available on a node with these labels."""
    for use, name in zip(pod.spec.volumes, pod.claim_names(), strict=True):
        claim = _claim(snapshot, pod.namespace, name)
        volume = _volume(snapshot, claim.volume_name) if claim is not None else None
        storage = _class(snapshot, use, claim)
        if volume is not None:
            terms = [[r for r in term.requirements if _holds(snapshot, volume, r)] for term in volume.node_terms]
        elif storage is not None:
            terms = [list(term.requirements) for term in storage.allowed_topologies]
        else:
            terms = []
        if terms and not any(meets_all(term, labels_of_node) for term in terms):
            return False
    return True


def _holds(snapshot: Snapshot, volume: PersistentVolume, requirement: Requirement) -> bool:
    """Whether a requirement of a volume counts: not the host of a local one whose node is gone, which would never return."""
    hosts = [node.labels.get(labels.HOSTNAME, node.name) for node in snapshot.nodes]
    is_gone = not any(requirement.has(host) for host in hosts)
    return not (volume.is_local and requirement.key == labels.HOSTNAME and is_gone)


def attachments(snapshot: Snapshot, pod: Pod) -> set[tuple[str, str]]:
    """(CSI driver, volume) of every volume that the pod attaches."""
    attached = set()
    for use, name in zip(pod.spec.volumes, pod.claim_names(), strict=True):
        claim = _claim(snapshot, pod.namespace, name)
        volume = _volume(snapshot, claim.volume_name) if claim is not None else None
        storage = _class(snapshot, use, claim)
        if volume is not None:
            attached.add((volume.driver, volume.name))
        elif storage is not None and storage.binding_mode != "Immediate" and (claim is not None or use.ephemeral):
            driver = EBS if storage.provisioner == "kubernetes.io/aws-ebs" else storage.provisioner
            attached.add((driver, f"{pod.namespace}/{name}"))
    return {(driver, volume) for driver, volume in attached if driver not in ("", "kubernetes.io/no-provisioner")}


def _claim(snapshot: Snapshot, namespace: str, name: str) -> PersistentVolumeClaim | None:
    return next((c for c in snapshot.volume_claims if (c.namespace, c.name) == (namespace, name)), None)


def _volume(snapshot: Snapshot, name: str) -> PersistentVolume | None:
    return next((v for v in snapshot.volumes if name and v.name == name), None)


def _class(snapshot: Snapshot, use: VolumeUse, claim: PersistentVolumeClaim | None) -> StorageClass | None:
    wanted = claim.storage_class if claim is not None else use.storage_class
    if wanted is None:
        return min((s for s in snapshot.storage_classes if s.is_default), key=lambda s: s.name, default=None)
    return next((s for s in snapshot.storage_classes if s.name == wanted), None)
