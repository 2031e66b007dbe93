"""Reading pod affinity terms."""

from __future__ import annotations

import pytest

from core import labels
from core.errors import InvalidInputError
from core.manifests.pod_affinity import pod_terms, preferred_pod_terms
from core.manifests.wire.affinity import WirePodAffinityTerm, WireWeightedPodAffinityTerm
from core.manifests.wire.object_metadata import WireLabelSelector
from tests.builders import a_selector

TERM = WirePodAffinityTerm(
    topology_key="failure-domain.beta.kubernetes.io/zone",
    label_selector=WireLabelSelector(match_labels={"app": "db"}),
    namespaces=("b", "a", "b"),
)


def test_a_term_has_one_meaning_in_each_notation() -> None:
    (found,) = pod_terms((TERM,), field="spec.affinity.podAffinity")
    assert (found.topology_key, found.namespaces, found.selector) == (labels.ZONE, ("a", "b"), a_selector(app="db"))
    (preferred,) = preferred_pod_terms((WireWeightedPodAffinityTerm(weight=7, pod_affinity_term=TERM),), field="f")
    assert (preferred.weight, preferred.term) == (7, found)


def test_a_missing_topology_key_names_its_place() -> None:
    with pytest.raises(InvalidInputError) as caught:
        pod_terms((WirePodAffinityTerm(topology_key=""),), field="spec.affinity.podAffinity")
    where = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"
    assert caught.value.field == where
