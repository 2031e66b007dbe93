"""Translates volumes, claims and storage classes from wire to model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.manifests.selectors import node_terms
from core.manifests.wire import cluster as wire_cluster
from core.model.pod import NodeSelectorTerm
from core.model.storage import (
    EBS_DRIVER,
    IMMEDIATE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    default_class,
)
from core.model.values.requirements import Requirement

_IN_TREE_EBS: Final = "kubernetes.io/aws-ebs"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_ZONAL_LABELS: Final = (
    labels.ZONE,
    labels.REGION,
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def volume(written: wire_cluster.WirePersistentVolume) -> PersistentVolume:
    """Translate a volume. Zone labels, which older provisioners set instead of a node affinity, restrict it to their zones.

    Raises:
        InvalidInputError: If its node affinity cannot be understood.
    """
    spec, metadata = written.spec, written.metadata
    required = spec.node_affinity.required if spec.node_affinity is not None else None
    terms = node_terms(required, field="spec.nodeAffinity.required")
    return PersistentVolume(
        name=metadata.name,
        node_terms=_held_to_labels(terms, metadata.labels),
        driver=_driver(spec),
        is_local=spec.local is not None or spec.host_path is not None,
        is_terminating=metadata.deletion_timestamp is not None,
    )


def volume_claim(written: wire_cluster.WirePersistentVolumeClaim) -> PersistentVolumeClaim:
    """Translate a claim."""
    metadata, spec = written.metadata, written.spec
    return PersistentVolumeClaim(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        volume_name=spec.volume_name,
        storage_class=spec.storage_class_name
        if spec.storage_class_name is not None
        else metadata.annotations.get(_CLASS_ANNOTATION),
        phase=written.status.phase or "Pending",
        is_terminating=metadata.deletion_timestamp is not None,
        is_bind_completed=_BIND_COMPLETED in metadata.annotations,
    )


def storage_class(written: wire_cluster.WireStorageClass) -> StorageClass:
    """Translate a class; the in-tree EBS provisioner gets the name of its CSI driver.

    Raises:
        InvalidInputError: If an allowed topology names no value.
    """
    annotations = written.metadata.annotations
    return StorageClass(
        name=written.metadata.name,
        provisioner=EBS_DRIVER if written.provisioner == _IN_TREE_EBS else written.provisioner,
        binding_mode=written.volume_binding_mode or IMMEDIATE,
        allowed_topologies=tuple(
            _allowed(topology, field=f"allowedTopologies[{i}]") for i, topology in enumerate(written.allowed_topologies)
        ),
        is_default=any(annotations.get(key) == "true" for key in _DEFAULT_ANNOTATIONS),
        created_at=written.metadata.creation_timestamp,
    )


def attachment(written: wire_cluster.WireVolumeAttachment) -> VolumeAttachment:
    """Translate an attachment."""
    return VolumeAttachment(
        name=written.metadata.name,
        node_name=written.spec.node_name,
        volume_name=written.spec.source.persistent_volume_name,
    )


def with_default_class(
    claims: Iterable[PersistentVolumeClaim], classes: Iterable[StorageClass]
) -> tuple[PersistentVolumeClaim, ...]:
    """Return the claims, with the default class for those that name none, as the API server does."""
    default = default_class(classes)
    return tuple(
        msgspec.structs.replace(claim, storage_class=default)
        if claim.storage_class is None and not claim.volume_name
        else claim
        for claim in claims
    )


def _held_to_labels(terms: tuple[NodeSelectorTerm, ...], own: dict[str, str]) -> tuple[NodeSelectorTerm, ...]:
    zonal = [Requirement.one_of(key, *own[key].split("__")) for key in _ZONAL_LABELS if key in own]
    if not zonal:
        return terms
    return tuple(
        NodeSelectorTerm(tuple(sorted({*term.requirements, *zonal})), term.uses_fields)
        for term in terms or (NodeSelectorTerm(),)
    )


def _driver(spec: wire_cluster.PersistentVolumeSpec) -> str:
    if spec.csi is not None:
        return spec.csi.driver
    return EBS_DRIVER if spec.aws_elastic_block_store is not None else ""


def _allowed(written: wire_cluster.AllowedTopology, *, field: str) -> NodeSelectorTerm:
    found = []
    for i, expression in enumerate(written.match_label_expressions):
        if not expression.values:
            raise InvalidInputError("needs at least one value", field=f"{field}.matchLabelExpressions[{i}].values")
        found.append(Requirement.one_of(expression.key, *expression.values))
    return NodeSelectorTerm(tuple(sorted(found)))
