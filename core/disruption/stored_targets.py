"""Targets between two passes: how they are stored, and which part remains once commands have started."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from core.model.plan import Command, StoredNewNode, StoredSeats, StoredTarget
from core.model.pod import Pod, PodSpec

VERSION: Final = 1
"""Of the bytes; what another version wrote is planned again."""

_KIND_BYTES: Final = 6
_DIGEST_BYTES: Final = 16


class _Envelope(msgspec.Struct, frozen=True):
    version: int
    target: StoredTarget


class PodKinds:
    """Tells kinds of pods apart in a way that lasts: who makes them, what they request, and which volumes they have."""

    def __init__(self) -> None:
        self._known: dict[
            tuple[str, int, tuple[str, ...]], tuple[PodSpec, str]
        ] = {}  # a spec that is held keeps its id

    def of(self, pod: Pod) -> str:
        """A short digest of the pod's kind."""
        volumes = pod.claim_names() if pod.spec.volumes else ()
        key = (pod.workload, id(pod.spec), volumes)
        if key not in self._known:
            text = repr((pod.workload, sorted(pod.spec.requests.items()), volumes))
            self._known[key] = pod.spec, blake2b(text.encode(), digest_size=_KIND_BYTES).hexdigest()
        return self._known[key][1]


def encode(target: StoredTarget) -> bytes:
    """Write a target."""
    return zlib.compress(msgspec.json.encode(_Envelope(VERSION, target), order="sorted"), 9)


def decode(raw: bytes) -> StoredTarget | None:
    """Read a target; None where another version wrote it or it is damaged: then it is planned again."""
    try:
        found = msgspec.json.decode(zlib.decompress(raw), type=_Envelope)
    except (zlib.error, msgspec.MsgspecError):
        return None
    return found.target if found.version == VERSION else None


def digest(target: StoredTarget) -> str:
    """Equal targets have equal digests."""
    return blake2b(msgspec.json.encode(target, order="sorted"), digest_size=_DIGEST_BYTES).hexdigest()


def after_commands(
    target: StoredTarget, commands: Sequence[Command], pods: Iterable[Pod], names: Mapping[str, str]
) -> StoredTarget | None:
    """What is left of a target once these commands of its have started; None where no node is left to go.

    Seats that they take are taken; a new node that they launch is a node like others, with seats for what later waves bring.

    Args:
        target: The target that the commands were decided with.
        commands: Those that have started; others of the same plan stay part of the target.
        pods: The pods of the snapshot that it was decided on.
        names: Name of a planned new node → name of the NodeClaim that it was launched as; the planned name where it is missing.
    """
    gone = {node for command in commands for node in command.nodes}
    drains = tuple(drain for drain in target.drains if drain.node not in gone)
    if not drains:
        return None
    taken = _taken(commands, pods)
    launched = {claim.name: claim.price for command in commands for claim in command.replacements}
    seats = [one for one in target.seats if one.node not in gone]
    seats += [
        StoredSeats(kind, name, count)
        for new in target.new_nodes
        if new.name in launched
        for name in (names.get(new.name, new.name),)
        for kind, count in sorted(new.pods.items())
    ]
    renamed = {(kind, names.get(to, to) if to in launched else to): count for (kind, to), count in taken.items()}
    return msgspec.structs.replace(
        target,
        drains=drains,
        kept_price=target.kept_price + sum(launched.values()),
        drained_price=sum(drain.price for drain in drains),
        new_price=target.new_price - sum(price for name, price in launched.items()),
        seats=tuple(_less(sorted(seats), renamed)),
        new_nodes=tuple(_rest_of(new, taken) for new in target.new_nodes if new.name not in launched),
    )


def _taken(commands: Sequence[Command], pods: Iterable[Pod]) -> Counter[tuple[str, str]]:
    """(Kind, where to) → pods that the commands move there."""
    to = {move.pod: move.to for command in commands for move in command.moves}
    kinds = PodKinds()
    return Counter((kinds.of(pod), to[pod.key]) for pod in pods if pod.key in to)


def _less(seats: Collection[StoredSeats], taken: Mapping[tuple[str, str], int]) -> Iterable[StoredSeats]:
    for one in seats:
        left = one.pods - taken.get((one.kind, one.node), 0)
        if left > 0:
            yield StoredSeats(one.kind, one.node, left)


def _rest_of(new: StoredNewNode, taken: Mapping[tuple[str, str], int]) -> StoredNewNode:
    """A new node that was not launched, without what commands have moved there nevertheless."""
    left = {kind: count - taken.get((kind, new.name), 0) for kind, count in new.pods.items()}
    return StoredNewNode(name=new.name, pods={kind: count for kind, count in left.items() if count > 0})
