"""Pods that no new node could help."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.model.pod import NodeSelectorTerm
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.pods.unsupported_pods import why_unsupported
from core.scheduling.pods.volumes import NO_VOLUMES, VolumeNeeds
from tests.builders import a_pod


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({}, ""),
        ({"problem": "no"}, PodReason.INVALID_POD),
        ({"resource_claims": ("gpu",)}, PodReason.UNSUPPORTED_RESOURCE_CLAIM),
        ({"required_terms": (NodeSelectorTerm(()),)}, PodReason.UNSUPPORTED_AFFINITY),
        ({"node_selector": (Requirement.of(labels.NODEPOOL, "DoesNotExist"),)}, PodReason.OPTED_OUT),
        ({"node_selector": (Requirement.one_of("karpenter.sh/unknown", "a"),)}, PodReason.RESTRICTED_LABEL),
    ],
)
def test_each_has_its_reason(spec: dict[str, Any], code: str) -> None:
    """Otherwise, a node is launched for a pod that cannot use it."""
    assert why_unsupported(a_pod(**spec).spec, NO_VOLUMES, labels.WELL_KNOWN)[0] == code


def test_faults_of_volumes_are_reported() -> None:
    """Otherwise, a pod waits for its volume without a reason."""
    needs = VolumeNeeds(reason=PodReason.VOLUME_MISSING, message="gone")
    assert why_unsupported(a_pod().spec, needs, labels.WELL_KNOWN) == (PodReason.VOLUME_MISSING, "gone")
