"""Takes over loads from another zone's subproblem: machines there hold much the same pods at much the same prices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from core.packing.problem import Ints
from core.scheduling.optimization.items.item_groups import ItemGroup

_Identity = tuple[object, ...]


class ZoneLoads(msgspec.Struct, frozen=True, eq=False):
    """Possible loads of machines of another subproblem.

    Attributes:
        groups: The other's item groups, in the order of its items.
        loads: [load, item], how many items of each group one machine holds.
    """

    groups: Sequence[ItemGroup]
    loads: Ints


def loads_from(found: ZoneLoads, groups: Sequence[ItemGroup], counts: Ints) -> Ints:
    """[load, item], the loads without pods that are not here.

    Args:
        found: Loads of another subproblem.
        groups: This one's item groups, in the order of its items.
        counts: [item], how many pods of the item are here.
    """
    # here[k] is the item whose pods found.loads[:, k] are, -1 for none; no load has more of an item than there are.
    numbers = {identity: number for number, identity in enumerate(_identities(groups))}
    here = np.array([numbers.get(identity, -1) for identity in _identities(found.groups)], dtype=np.int64)
    loads = np.zeros((len(found.loads), len(groups)), dtype=np.int64)
    loads[:, here[here >= 0]] = found.loads[:, here >= 0]
    return np.minimum(loads, counts)


def _identities(groups: Sequence[ItemGroup]) -> list[tuple[_Identity, int]]:
    """[item], the group without its requirements, which name the zone, and how many equal groups come before it."""
    before: dict[_Identity, int] = {}
    found: list[tuple[_Identity, int]] = []
    for group in groups:
        options = tuple((option.template_index, option.allowed) for option in group.options)
        identity: _Identity = (
            group.requests,
            group.is_fixed,
            options,
            group.hostname_requests,
            group.per_machine_max,
            group.capped_by,
        )
        found.append((identity, before.get(identity, 0)))
        before[identity] = before.get(identity, 0) + 1
    return found
