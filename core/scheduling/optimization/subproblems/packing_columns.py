"""Builds the machine types of a packing problem from what NodePools could launch for given item groups.

A machine type of the problem is an instance type at its lowest price among the offerings (zone, capacity type, reservation)
that the same item groups may use. It thus defines exactly which groups may share a machine, and the machine's lowest cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from core.packing.problem import Bools, Ints, PackingProblem
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.optimization.items.item_groups import ItemGroup
from core.scheduling.primitives.handles import RequirementId, TopologyGroupId

_NOT_OFFERED = np.iinfo(np.int64).max


class _MachineTypes(msgspec.Struct, frozen=True, eq=False):
    """Machine types: [type] instance type of the NodePool, [type, resource] capacity, [type] price, [group, type] allowed."""

    instance_types: Ints
    capacity: Ints
    prices: Ints
    allowed: Bools


def problem_of(
    templates: Sequence[NodeClaimTemplate],
    *,
    counts: Mapping[ItemGroup, int],
    hostname_capacity: Mapping[TopologyGroupId, int],
) -> PackingProblem:
    """As `problem_and_types`, without the instance types."""
    return problem_and_types(templates, counts=counts, hostname_capacity=hostname_capacity)[0]


def problem_and_types(
    templates: Sequence[NodeClaimTemplate],
    *,
    counts: Mapping[ItemGroup, int],
    hostname_capacity: Mapping[TopologyGroupId, int],
) -> tuple[PackingProblem, Ints]:
    """Return the packing problem of these item groups, numbered in the mapping's order; and [type], its instance type.

    Resources are those of nodes, then one for fixed items (one per machine), then the hostname groups with their capacity per
    machine.
    """
    groups = list(counts)
    used = dict.fromkeys(option.template_index for group in groups for option in group.options)
    parts = [part for index in sorted(used) for part in _machine_types(templates[index], index, groups)]
    capacity = np.concatenate([part.capacity for part in parts])
    more = np.tile(np.array([1, *hostname_capacity.values()], dtype=np.int64), (len(capacity), 1))
    problem = PackingProblem.of(
        requests=np.array([_requests(group, hostname_capacity) for group in groups], dtype=np.int64),
        counts=np.array(list(counts.values()), dtype=np.int64),
        capacity=np.concatenate([capacity, more], axis=1),
        prices=np.concatenate([part.prices for part in parts]),
        allowed=np.concatenate([part.allowed for part in parts], axis=1),
        pods_per_machine_max=np.array([group.per_machine_max for group in groups], dtype=np.int64),
    )
    return problem, np.concatenate([part.instance_types for part in parts])


def _requests(group: ItemGroup, hostname_capacity: Mapping[TopologyGroupId, int]) -> tuple[int, ...]:
    taken = dict(group.hostname_requests)
    return *group.requests, int(group.is_fixed), *(taken.get(number, 0) for number in hostname_capacity)


def _machine_types(
    template: NodeClaimTemplate, template_index: int, groups: Sequence[ItemGroup]
) -> Iterator[_MachineTypes]:
    """Return one NodePool's machine types, a part for each set of offerings that the same requirements may use."""
    # An ask is the pair (requirements, types) of an option of a group. may_ask: [group, ask], whether the group has it;
    # suits: [ask, type], whether the type is compatible. An instance type is allowed for a group where one of its asks that can
    # use the offerings suits: allowed = (may_ask ∧ users) · suits > 0, a matrix product.
    options = [[option for option in group.options if option.template_index == template_index] for group in groups]
    asks = list(dict.fromkeys((option.reqs, option.allowed) for of_group in options for option in of_group))
    numbers = {ask: number for number, ask in enumerate(asks)}
    may_ask = np.zeros((len(groups), len(asks)), dtype=np.int64)
    for row, of_group in enumerate(options):
        for option in of_group:
            may_ask[row, numbers[option.reqs, option.allowed]] = 1
    types = template.types
    suits = np.array([_as_row(types.mask(reqs) & allowed, len(types.types)) for reqs, allowed in asks])
    capacity = np.array(types.room.vectors, dtype=np.int64)
    for users, lowest in sorted(_lowest_prices(template, [reqs for reqs, _ in asks]).items()):
        allowed = (may_ask & np.array(users)) @ suits.astype(np.int64) > 0
        offered = np.flatnonzero((lowest < _NOT_OFFERED) & allowed.any(axis=0) & (capacity >= 0).all(axis=1))
        yield _MachineTypes(offered, capacity[offered], lowest[offered], allowed[:, offered])


def _lowest_prices(template: NodeClaimTemplate, requirements: Sequence[RequirementId]) -> dict[tuple[bool, ...], Ints]:
    """Return which requirements may use an offering → [type], each instance type's lowest price in such offerings."""
    types = template.types
    found: dict[tuple[bool, ...], Ints] = {}
    priced = [dict(types.offerings.by_labels(reqs)) for reqs in requirements]
    for values in sorted({values for prices in priced for values in prices}):
        users = tuple(values in prices for prices in priced)
        lowest = found.setdefault(users, np.full(len(types.types), _NOT_OFFERED))
        offers = np.array(priced[users.index(True)][values], dtype=np.int64)
        lowest[offers[:, 1]] = np.minimum(lowest[offers[:, 1]], offers[:, 0])
    return found


def _as_row(mask: int, length: int) -> Bools:
    """Return [bit], the lowest `length` bits of a mask, least significant first."""
    packed = np.frombuffer(mask.to_bytes((length + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, bitorder="little")[:length].astype(np.bool_)
