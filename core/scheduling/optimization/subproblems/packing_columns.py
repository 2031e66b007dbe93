"""What NodePools could launch for given kinds of pods, as the columns of a packing problem.

A column is a type at the lowest price that it has in any market (zone, capacity type, reservation) of those that the same
kinds of pods may use. So a column says exactly who may share a machine and what that machine costs at the least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.packing.problem import Bools, Ints, Problem
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.optimization.items.item_groups import Kind
from core.scheduling.primitives.handles import TypeMask

_UNSOLD = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    types: Ints
    room: Ints
    prices: Ints
    allowed: Bools


def problem_of(templates: Sequence[NodeClaimTemplate], counts: Mapping[Kind, int], rows: Mapping[int, int]) -> Problem:
    """As `problem_and_types`, without the types."""
    return problem_and_types(templates, counts, rows)[0]


def problem_and_types(
    templates: Sequence[NodeClaimTemplate], counts: Mapping[Kind, int], rows: Mapping[int, int]
) -> tuple[Problem, Ints]:
    """The packing problem of so many parties of each kind, numbered in the mapping's order; and which type each column is.

    Resources are those of the nodes, then seats, then the hostname groups in `rows` with the room that each machine has.
    """
    kinds = list(counts)
    used = dict.fromkeys(position for kind in kinds for position, _, _ in kind.ways)
    parts = [part for position in sorted(used) for part in _columns(templates[position], position, kinds)]
    room = np.concatenate([part.room for part in parts])
    more = np.tile(np.array([1, *rows.values()], dtype=np.int64), (len(room), 1))
    taken = [dict(kind.rows) for kind in kinds]
    problem = Problem.of(
        requests=np.array(
            [
                (*kind.requests, kind.seats, *(own.get(number, 0) for number in rows))
                for kind, own in zip(kinds, taken, strict=True)
            ],
            dtype=np.int64,
        ),
        counts=np.array(list(counts.values()), dtype=np.int64),
        room=np.concatenate([room, more], axis=1),
        prices=np.concatenate([part.prices for part in parts]),
        allowed=np.concatenate([part.allowed for part in parts], axis=1),
        most=np.array([kind.most for kind in kinds], dtype=np.int64),
    )
    return problem, np.concatenate([part.types for part in parts])


def _columns(template: NodeClaimTemplate, position: int, kinds: Sequence[Kind]) -> Iterator[_Columns]:
    """One template's columns, a part for each set of markets that the same pods may use."""
    asks = list(dict.fromkeys((reqs, types) for kind in kinds for where, reqs, types in kind.ways if where == position))
    numbers = {ask: number for number, ask in enumerate(asks)}
    may_ask = np.zeros((len(kinds), len(asks)), dtype=np.int64)
    for row, kind in enumerate(kinds):
        for where, reqs, allowed in kind.ways:
            if where == position:
                may_ask[row, numbers[reqs, allowed]] = 1
    types = template.types
    suits = np.array([_as_row(types.mask(reqs) & allowed, len(types.types)) for reqs, allowed in asks])
    room = np.array(types.room.vectors, dtype=np.int64)
    by_users: dict[tuple[bool, ...], Ints] = {}
    priced = [dict(types.offerings.by_market(reqs)) for reqs, _ in asks]
    for market in sorted({market for prices in priced for market in prices}):
        users = tuple(market in prices for prices in priced)
        lowest = by_users.setdefault(users, np.full(len(room), _UNSOLD))
        offers = np.array(priced[users.index(True)][market], dtype=np.int64)
        lowest[offers[:, 1]] = np.minimum(lowest[offers[:, 1]], offers[:, 0])
    for users, lowest in sorted(by_users.items()):
        allowed = (may_ask & np.array(users)) @ suits.astype(np.int64) > 0
        sold = np.flatnonzero((lowest < _UNSOLD) & allowed.any(axis=0) & (room >= 0).all(axis=1))
        yield _Columns(sold, room[sold], lowest[sold], allowed[:, sold])


def _as_row(mask: TypeMask, length: int) -> Bools:
    packed = np.frombuffer(mask.to_bytes((length + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, bitorder="little")[:length].astype(np.bool_)
