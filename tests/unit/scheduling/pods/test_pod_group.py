"""Where a pod's own node affinity lets it run."""

from __future__ import annotations

from core import labels
from core.model.pod import NodeSelectorTerm
from core.model.values.requirements import Requirement
from core.scheduling.pods.pod_group import PodSignature
from tests.builders import ZONES, a_pod


def test_alternatives_are_checked_one_by_one() -> None:
    """Otherwise, a spread counts zones that the pod may not use, or misses some that it may."""
    first, second = (NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2])
    spec = a_pod(required_terms=(first, second)).spec
    signature = PodSignature(0, "default", {}, spec, ())
    assert [signature.may_run_at(labels.ZONE, zone) for zone in ZONES] == [True, True, False]
    assert (signature.may_run_anywhere(labels.ZONE), signature.may_run_anywhere(labels.ARCH)) == (False, True)
