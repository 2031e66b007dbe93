"""Translates affinity and anti-affinity between pods from wire to model."""

from __future__ import annotations

from core import labels
from core.errors import InvalidInputError
from core.manifests.selectors import label_selector
from core.manifests.wire.affinity import WirePodAffinityTerm, WireWeightedPodAffinityTerm
from core.model.pod import PodAffinityTerm, WeightedPodAffinityTerm


def pod_terms(written: tuple[WirePodAffinityTerm, ...], *, field: str) -> tuple[PodAffinityTerm, ...]:
    """Return the required terms, in order; `field` is the path of the podAffinity or podAntiAffinity.

    Raises:
        InvalidInputError: If a selector cannot be read or a topologyKey is empty.
    """
    where = f"{field}.requiredDuringSchedulingIgnoredDuringExecution"
    return tuple(_term(term, field=f"{where}[{i}]") for i, term in enumerate(written))


def preferred_pod_terms(
    written: tuple[WireWeightedPodAffinityTerm, ...], *, field: str
) -> tuple[WeightedPodAffinityTerm, ...]:
    """Return the preferred terms with their weights, in order.

    Raises:
        InvalidInputError: As `pod_terms`.
    """
    where = f"{field}.preferredDuringSchedulingIgnoredDuringExecution"
    return tuple(
        WeightedPodAffinityTerm(entry.weight, _term(entry.pod_affinity_term, field=f"{where}[{i}].podAffinityTerm"))
        for i, entry in enumerate(written)
    )


def _term(written: WirePodAffinityTerm, *, field: str) -> PodAffinityTerm:
    if not written.topology_key:
        raise InvalidInputError("is missing", field=f"{field}.topologyKey")
    return PodAffinityTerm(
        topology_key=labels.normalized(written.topology_key),
        selector=label_selector(written.label_selector, field=f"{field}.labelSelector"),
        namespaces=tuple(sorted(set(written.namespaces))),
        namespace_selector=label_selector(written.namespace_selector, field=f"{field}.namespaceSelector"),
        match_label_keys=written.match_label_keys,
        mismatch_label_keys=written.mismatch_label_keys,
    )
