"""Joins packing items that the solver need not distinguish into one item of its problem.

A hostname group whose counted pods all obey the same cap is a resource of which each machine has that amount; if there are too
many such groups, it is a cap on each item group. Other hostname rules apply when packing items are assigned to machines
(`claims.item_assignment`): items that differ only in them are equal for the solver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from core.packing.search_settings import RepackSettings
from core.scheduling.primitives.handles import RequirementId, TopologyGroupId, TypeMask
from core.scheduling.primitives.resource_vector import Vector

if TYPE_CHECKING:
    from core.scheduling.optimization.items.packing_item import Amounts, PackingItem

INTERDEPENDENT: Final = TopologyGroupId(-1)
"""Represents all hostname groups that count pods which do not obey them; an item that obeys one uses a unit of its capacity."""


class LaunchOption(NamedTuple):
    """One option for an item: claims of one NodePool.

    Attributes:
        template_index: The position of the NodePool's template.
        reqs: Number of the requirements that the claim must have.
        allowed: The remaining types.
    """

    template_index: int
    reqs: RequirementId
    allowed: TypeMask


class ItemGroup(msgspec.Struct, frozen=True, cache_hash=True):
    """Packing items that are equal for the solver.

    Attributes:
        requests: What each of them requests.
        options: The options where they may run.
        is_fixed: Whether its items are fixed sets of pods: a node holds at most one item of all fixed groups together.
        hostname_requests: How much they use of hostname groups that are resources.
        per_machine_max: The most of them on one machine, zero for no cap.
        capped_by: The hostname groups of the cap: groups with equal caps, but by different hostname groups, must stay distinct.
    """

    requests: Vector
    options: tuple[LaunchOption, ...]
    is_fixed: bool = False
    hostname_requests: Amounts = ()
    per_machine_max: int = 0
    capped_by: tuple[TopologyGroupId, ...] = ()

    def restricted_to(self, option: LaunchOption) -> ItemGroup:
        """Return the same group with only one option."""
        return replace(self, options=(option,))


class ItemGrouping:
    """Groups packing items.

    Attributes:
        hostname_capacity: Hostname group → how much of it a machine has, for groups that are resources; with `INTERDEPENDENT`.
    """

    def __init__(self, counts: Mapping[PackingItem, int], settings: RepackSettings) -> None:
        """Choose the hostname groups that are resources, by the number of each item."""
        uniform = self._uniform = _uniform_caps(counts)
        totals: dict[TopologyGroupId, int] = {}
        for item, count in counts.items():
            for number, amount in item.counted:
                if number in uniform:
                    totals[number] = totals.get(number, 0) + count * amount
        # A group with n counted pods and cap c needs ⌈n / c⌉ machines. Those that need the most are binding; the others, down
        # from a fraction of the widest, find their machines anyway.
        machines = {number: -(-total // uniform[number]) for number, total in totals.items()}
        machines_min = max(2, max(machines.values(), default=0) // settings.hostname_machines_divisor)
        binding = [number for number in machines if machines[number] >= machines_min]
        binding.sort(key=lambda number: (-machines[number], number))
        resources = sorted(binding[: settings.hostname_resources_max])
        self.hostname_capacity = {number: uniform[number] for number in resources}
        interdependent = {number for item in counts for number, _ in item.caps if number not in uniform}
        if interdependent:
            share = len(interdependent) // settings.interdependent_groups_divisor
            self.hostname_capacity[INTERDEPENDENT] = max(settings.interdependent_per_machine_min, share)
        self._capped = {number: cap for number, cap in uniform.items() if number not in self.hostname_capacity}

    def of(self, item: PackingItem, option: LaunchOption) -> ItemGroup:
        """Return the group of an item with one option."""
        resources = tuple((number, amount) for number, amount in item.counted if number in self.hostname_capacity)
        capped = [(number, amount) for number, amount in item.counted if number in self._capped]
        is_interdependent = any(number not in self._uniform for number, _ in item.caps)
        return ItemGroup(
            requests=item.requests,
            options=(option,),
            is_fixed=item.is_fixed,
            hostname_requests=(*resources, (INTERDEPENDENT, 1)) if is_interdependent else resources,
            per_machine_max=min((self._capped[number] // amount for number, amount in capped), default=0),
            capped_by=tuple(number for number, _ in capped),
        )


def _uniform_caps(items: Iterable[PackingItem]) -> dict[TopologyGroupId, int]:
    """Return hostname group → its cap, for groups that count exactly the pods that obey them, all with the same cap."""
    caps: dict[TopologyGroupId, int] = {}
    mixed: set[TopologyGroupId] = set()
    for item in items:
        if not (item.counted or item.caps):
            continue
        counted, allowed = dict(item.counted), dict(item.caps)
        for number in sorted(counted.keys() | allowed.keys()):
            cap = allowed.get(number)
            if cap is None or number not in counted or caps.setdefault(number, cap) != cap:
                mixed.add(number)
    return {number: cap for number, cap in sorted(caps.items()) if number not in mixed}
