"""The properties of volumes, claims and storage classes that determine where a pod may run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from core.model.pod import NodeSelectorTerm

IMMEDIATE = "Immediate"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
EBS_DRIVER: Final = "ebs.csi.aws.com"
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


class PersistentVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume. `node_terms` are the alternatives of its required node affinity, `driver` its CSI driver if it has one."""

    name: str
    node_terms: tuple[NodeSelectorTerm, ...] = ()
    driver: str = ""
    is_local: bool = False
    is_terminating: bool = False


class PersistentVolumeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim on a volume. `volume_name` is empty until it is bound; `is_bind_completed` is the binder's own annotation."""

    namespace: str
    name: str
    volume_name: str = ""
    storage_class: str | None = None
    phase: str = "Pending"
    is_terminating: bool = False
    is_bind_completed: bool = False


class StorageClass(msgspec.Struct, frozen=True, kw_only=True):
    """How volumes are provisioned. `allowed_topologies` are alternatives."""

    name: str
    provisioner: str = ""
    binding_mode: str = IMMEDIATE
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()
    is_default: bool = False
    created_at: datetime | None = None


def default_class(classes: Iterable[StorageClass]) -> str | None:
    """Return the class of claims that name none: the newest of several defaults, then the first by name (Kubernetes)."""
    by_name = sorted((found for found in classes if found.is_default), key=lambda found: found.name)
    newest = max(by_name, key=lambda found: found.created_at or _OLDEST, default=None)
    return newest.name if newest is not None else None


class VolumeAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """A volume attached to a node."""

    name: str
    node_name: str
    volume_name: str
