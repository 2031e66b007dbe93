"""Writes status and annotations of NodePools and EC2NodeClasses, from their manifests as listed."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.ports import Clock, JsonObject, Kubernetes
from core.api.objects import name_of
from core.manifests.wire.api_resources import Resource
from lambdas.controllers.status.status_writer import Present, StatusWriter, tolerate_gone


class UserObjects:
    """Writes only what differs from the manifest."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._statuses = StatusWriter(kubernetes, clock)

    def write_status(self, kind: Resource, manifest: JsonObject, status: JsonObject) -> bool:
        """Bring the status up to date; return whether it was not. Raises PortError."""
        return self._statuses.write(Present.of(kind, manifest), status)

    def annotate(self, kind: Resource, manifest: JsonObject, annotations: Mapping[str, str | None]) -> None:
        """Set annotations; None removes one. Raises PortError."""
        present = (manifest.get("metadata") or {}).get("annotations") or {}
        if all(present.get(key) == value for key, value in annotations.items()):
            return
        body = {"metadata": {"annotations": dict(annotations)}}
        tolerate_gone(lambda: self._kubernetes.patch(kind, name_of(manifest), body))
