"""Sorts the required topology rules of a pod by their domains: hosts, or zones and other shared ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from core.model.pod import Pod
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from core.scheduling.topology.topology_group import (
    AFFINITY,
    ANTI_AFFINITY,
    Namespaces,
    TopologyGroup,
    affinity_group,
    spread_group,
)


class PodRules(msgspec.Struct, frozen=True):
    """The required rules of a pod: over hosts, and wide ones, over zones or other shared domains."""

    host_spreads: tuple[TopologyGroup, ...] = ()
    host_affinity: tuple[TopologyGroup, ...] = ()
    wide_spreads: tuple[TopologyGroup, ...] = ()
    wide_affinity: tuple[TopologyGroup, ...] = ()
    wide_anti_affinity: tuple[TopologyGroup, ...] = ()

    @classmethod
    def of(cls, pod: Pod, defaults: DefaultSpreads, namespaces: Namespaces) -> PodRules:
        """Read the pod's rules; `defaults` are the cluster's default spreads."""
        required = defaults.required_of(pod)
        if not required and not pod.spec.affinity and not pod.spec.anti_affinity:
            return _NO_RULES
        spreads = [spread_group(spread, required, pod.spec, pod.namespace, pod.labels) for spread in required]
        near, apart = (
            [affinity_group(kind, term, pod.namespace, pod.labels, namespaces) for term in terms]
            for kind, terms in ((AFFINITY, pod.spec.affinity), (ANTI_AFFINITY, pod.spec.anti_affinity))
        )
        return cls(
            host_spreads=tuple(group for group in spreads if group.is_hostname),
            host_affinity=tuple(group for group in near if group.is_hostname),
            wide_spreads=tuple(group for group in spreads if not group.is_hostname),
            wide_affinity=tuple(group for group in near if not group.is_hostname),
            wide_anti_affinity=tuple(group for group in apart if not group.is_hostname),
        )

    @property
    def wide(self) -> tuple[TopologyGroup, ...]:
        """All over shared domains."""
        return (*self.wide_spreads, *self.wide_affinity, *self.wide_anti_affinity)


_NO_RULES: Final = PodRules()


def selects_any(groups: Sequence[TopologyGroup], pods: Iterable[Pod]) -> bool:
    """Whether any of the rules selects any of the pods."""
    return bool(groups) and any(group.selects(pod.namespace, pod.labels) for pod in pods for group in groups)
