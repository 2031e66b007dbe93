"""Daemon overhead: the DaemonSet pods that every matching node gets, and the room that they leave."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from core.model.pod import HostPort
from core.model.policy import DaemonSet
from core.model.values.requirements import Requirements
from core.model.values.taints import Taint, first_untolerated
from core.scheduling.instance_types.type_filter import TypeFilter
from core.scheduling.pods.preferences import TOLERATE_PREFERENCES, required_alternatives
from core.scheduling.primitives.bit_set import positions
from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.primitives.resource_vector import ResourceAxis, Vector, plus

_Load = tuple[TypeMask, Vector, tuple[HostPort, ...]]
"""Types, and the requests and host ports of the daemons that they carry."""


class DaemonPod(msgspec.Struct, frozen=True, eq=False):
    """One DaemonSet's pod.

    Attributes:
        alternatives: Numbers of the node selector with each alternative of the required node affinity.
    """

    source: DaemonSet
    requests: Vector
    alternatives: tuple[RequirementId, ...]

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """Host ports that it takes."""
        return self.source.spec.host_ports

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """Whether it tolerates the taints; PreferNoSchedule never keeps a daemon away."""
        return first_untolerated(taints, (*self.source.spec.tolerations, TOLERATE_PREFERENCES)) is None

    def runs_on(self, offered: Requirements, taints: Iterable[Taint], table: RequirementTable) -> bool:
        """Whether an existing node with these labels and taints gets the pod."""
        return self.tolerates(taints) and any(table.offers(offered, one) for one in self.alternatives)


def daemon_pods(daemon_sets: Iterable[DaemonSet], axis: ResourceAxis, table: RequirementTable) -> tuple[DaemonPod, ...]:
    """Return every DaemonSet's pod, by name. DaemonSets that need resource claims are left out, like pods that need them."""
    ordered = sorted(daemon_sets, key=lambda d: (d.namespace, d.name))
    return tuple(_daemon_pod(source, axis, table) for source in ordered if not source.spec.resource_claims)


def _daemon_pod(source: DaemonSet, axis: ResourceAxis, table: RequirementTable) -> DaemonPod:
    found = [table.conjunction(parts) for parts in required_alternatives(source.spec)]
    possible = tuple(dict.fromkeys(number for number in found if number != IMPOSSIBLE))
    return DaemonPod(source, axis.vector({"pods": 1, **source.spec.requests}), possible)


def without_overhead(
    types: TypeFilter, offered: RequirementId, taints: tuple[Taint, ...], daemons: tuple[DaemonPod, ...]
) -> TypeFilter:
    """Return the types of a NodePool less the requests of the DaemonSets' pods.

    A daemon counts on every type that could run it, even if a claim is later narrowed so that it does not (Karpenter).
    """
    if not daemons:
        return types
    nothing: Vector = tuple(0 for _ in daemons[0].requests)
    overhead = [nothing] * len(types.types)
    ports: list[tuple[HostPort, ...]] = [()] * len(types.types)
    for carriers, requests, taken in _loads(types, offered, taints, daemons, nothing):
        for position in positions(carriers):
            overhead[position], ports[position] = requests, taken
    return types.with_overhead(overhead, ports)


def _loads(
    types: TypeFilter,
    offered: RequirementId,
    taints: tuple[Taint, ...],
    daemons: tuple[DaemonPod, ...],
    nothing: Vector,
) -> list[_Load]:
    """Return the types in sets that carry the same daemons, each with their requests and host ports."""
    found: list[_Load] = [(types.full, nothing, ())]
    for daemon in daemons:
        carriers = _carriers(daemon, types, offered, taints)
        more = [
            (TypeMask(mask & carriers), plus(requests, daemon.requests), (*ports, *daemon.ports))
            for mask, requests, ports in found
        ]
        others = [(TypeMask(mask & ~carriers), requests, ports) for mask, requests, ports in found]
        found = [load for load in (*more, *others) if load[0]]
    return found


def _carriers(daemon: DaemonPod, types: TypeFilter, offered: RequirementId, taints: tuple[Taint, ...]) -> TypeMask:
    mask = TypeMask(0)
    for alternative in daemon.alternatives if daemon.tolerates(taints) else ():
        narrowed = types.table.narrowed(offered, asked=alternative)
        mask |= types.mask(narrowed) if narrowed != IMPOSSIBLE else 0
    return mask
