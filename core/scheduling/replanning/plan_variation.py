"""Describes how a plan may differ from the greedy plan, and which changes may help pods without a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from core.scheduling.greedy.guided_steps import BarredDomain, DomainOrder, RoundRobinPods
from core.scheduling.pods.pod_group import PendingGroup
from core.scheduling.replanning.topology_conflicts import TopologyConflicts

VALUES_TO_EXCLUDE_ONE: Final = 3
"""From this many values of a key on, pods may also take all but one in turn and leave that one to others."""


class PlanVariation(NamedTuple):
    """Changes to the order of the queue and to the choice of domains, by the numbers of signatures.

    Attributes:
        first: Signatures that are placed before the others, in this order.
        last: Signatures that are placed after the others, in this order.
        barred: Domains that signatures leave to others until all had their turn.
        round_robin: Signatures whose pods take the domains of a key in turn.
        order: The order in which all other pods with rules along a key try its domains; None for the usual order.
    """

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    barred: frozenset[BarredDomain] = frozenset()
    round_robin: frozenset[RoundRobinPods] = frozenset()
    order: DomainOrder | None = None

    def rank(self, pending_group: PendingGroup) -> int:
        """Return a group's rank in the queue, which precedes all other criteria."""
        signature = pending_group.pod_group.signature.index
        if signature in self.first:
            return self.first.index(signature) - len(self.first)
        return self.last.index(signature) + 1 if signature in self.last else 0

    def neighbours(self, signature: int, conflicts: TopologyConflicts) -> Iterator[PlanVariation]:
        """Yield variations with one more change that may help pods of a signature, the most promising first."""
        ahead = self._ahead(signature)
        yield ahead
        for key, others in conflicts.followed.items():
            everywhere = [(other, key, conflicts.values[key]) for other in others]
            yield self._replace(round_robin=self.round_robin | {*everywhere})
            for one in everywhere:
                yield self._replace(round_robin=self.round_robin | {one})
            for value in conflicts.values[key] if len(conflicts.values[key]) >= VALUES_TO_EXCLUDE_ONE else ():
                remaining = tuple(one for one in conflicts.values[key] if one != value)
                in_turn = self._replace(round_robin=self.round_robin | {(other, key, remaining) for other in others})
                yield in_turn
                kept_out = {(other, key, one) for other in conflicts.repelled.get(key, ()) for one in remaining}
                if kept_out:
                    yield in_turn._replace(barred=self.barred | kept_out)
        for key, others in conflicts.repelled.items():
            for value in conflicts.values[key]:
                barred = self.barred | {(other, key, value) for other in others}
                yield ahead._replace(barred=barred)
                yield self._replace(barred=barred)
        for other in conflicts.signatures:
            yield self._behind(other)
            for key, values in conflicts.values.items():
                for value in values:
                    yield self._replace(barred=self.barred | {(other, key, value)})
        for key, values in conflicts.values.items():
            for value in values:
                yield self._replace(barred=self.barred | {(signature, key, one) for one in values if one != value})

    def _ahead(self, signature: int) -> PlanVariation:
        return self._replace(first=(signature, *_without(self.first, signature)), last=_without(self.last, signature))

    def _behind(self, signature: int) -> PlanVariation:
        return self._replace(first=_without(self.first, signature), last=(*_without(self.last, signature), signature))


def in_domain_orders(values: Mapping[str, tuple[str, ...]], drawn: int) -> Iterator[PlanVariation]:
    """Yield variations in which all pods try the domains in the same order, then `drawn` ones in which each has its own.

    Args:
        values: Topology key → its values. One order starts at each value and continues up the list, one down the list.
        drawn: How many variations have random orders.
    """
    for key, found in values.items():
        for up in (found, found[::-1]):
            for first in range(len(found)):
                yield PlanVariation(order=DomainOrder(key, up[first:] + up[:first]))
    for seed in range(drawn):
        for key, found in values.items():
            yield PlanVariation(order=DomainOrder(key, found, seed))


def _without(signatures: tuple[int, ...], signature: int) -> tuple[int, ...]:
    return tuple(one for one in signatures if one != signature)
