"""Volumes of pods on the wire, and the PersistentVolumeClaims behind them."""

from __future__ import annotations

from msgspec import field

from core.manifests.wire.object_metadata import Wire, WireMetadata


class ClaimSource(Wire):
    """`volumes[].persistentVolumeClaim`."""

    claim_name: str


class WireClaimSpec(Wire):
    """`spec` of a PersistentVolumeClaim or of a template for one."""

    storage_class_name: str | None = None
    volume_name: str = ""


class WireClaimTemplate(Wire):
    """A template from which a PersistentVolumeClaim is made."""

    metadata: WireMetadata = field(default_factory=WireMetadata)
    spec: WireClaimSpec = field(default_factory=WireClaimSpec)


class EphemeralSource(Wire):
    """`volumes[].ephemeral`."""

    volume_claim_template: WireClaimTemplate = field(default_factory=WireClaimTemplate)


class Volume(Wire):
    """A volume; only those with a claim decide where a pod may run."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
