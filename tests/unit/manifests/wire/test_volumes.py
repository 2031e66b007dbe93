"""Volumes of pods on the wire."""

from __future__ import annotations

import msgspec

from core.manifests.wire.volumes import Volume


def test_a_volume_names_its_claim() -> None:
    found = msgspec.convert({"name": "data", "persistentVolumeClaim": {"claimName": "db-0"}}, Volume)
    assert found.persistent_volume_claim is not None
    assert found.persistent_volume_claim.claim_name == "db-0"


def test_an_ephemeral_volume_says_from_which_class_its_claim_is_made() -> None:
    template = {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}
    found = msgspec.convert({"name": "scratch", "ephemeral": template}, Volume)
    assert found.ephemeral is not None
    assert found.ephemeral.volume_claim_template.spec.storage_class_name == "gp3"


def test_a_volume_of_the_node_has_no_claim() -> None:
    found = msgspec.convert({"name": "tmp", "emptyDir": {}}, Volume)
    assert (found.persistent_volume_claim, found.ephemeral) == (None, None)
