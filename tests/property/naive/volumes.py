"""Random volumes: bound in one zone or two, waiting for their first consumer, broken."""

from __future__ import annotations

from random import Random

from core import labels
from core.model.pod import (
    IMMEDIATE,
    WAIT_FOR_FIRST_CONSUMER,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from core.model.values.requirements import Requirement
from tests.property.naive.node_rules import EBS
from tests.property.naive.vocabulary import NAMESPACES, chance, some_of

Storage = tuple[tuple[PersistentVolume, ...], tuple[PersistentVolumeClaim, ...], tuple[StorageClass, ...]]


def random_storage(draw: Random, zones: tuple[str, ...]) -> Storage:
    """Volumes, claims and storage classes. Class `zonal` allows some zones, `any` all, `late` is the default."""
    volumes, claims = [], []
    for number in range(6):
        namespace, name = draw.choice(NAMESPACES), f"claim-{number}"
        kind = draw.choice(("bound", "bound", "unbound", "unbound", "broken"))
        if kind == "bound":
            volumes.append(_volume(draw, f"volume-{number}", zones))
            claims.append(
                PersistentVolumeClaim(
                    namespace=namespace,
                    name=name,
                    volume_name=f"volume-{number}",
                    phase="Bound",
                    is_bind_completed=True,
                )
            )
        elif kind == "unbound":
            storage = draw.choice(("zonal", "any", None))
            claims.append(PersistentVolumeClaim(namespace=namespace, name=name, storage_class=storage))
        else:
            claims.append(
                PersistentVolumeClaim(
                    namespace=namespace, name=name, storage_class=draw.choice(("absent", "now")),
                    phase=draw.choice(("Pending", "Lost")),
                )
            )  # fmt: skip
    allowed = tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in some_of(draw, zones))
    shared = {"provisioner": EBS, "binding_mode": WAIT_FOR_FIRST_CONSUMER}
    classes = (
        StorageClass(name="zonal", allowed_topologies=allowed, **shared),
        StorageClass(name="any", is_default=chance(draw, 0.8), **shared),
        StorageClass(name="now", provisioner=EBS, binding_mode=IMMEDIATE),
    )
    return tuple(volumes), tuple(claims), classes


def _volume(draw: Random, name: str, zones: tuple[str, ...]) -> PersistentVolume:
    if chance(draw, 0.15):
        here = (Requirement.one_of(labels.HOSTNAME, "node-0"), Requirement.one_of(labels.ZONE, draw.choice(zones)))
        return PersistentVolume(name=name, node_terms=(NodeSelectorTerm(here[: draw.randint(1, 2)]),), is_local=True)
    terms = tuple(
        NodeSelectorTerm((Requirement.one_of(labels.ZONE, z),)) for z in draw.sample(zones, draw.choice((1, 1, 2)))
    )
    return PersistentVolume(name=name, node_terms=terms, driver=EBS)
