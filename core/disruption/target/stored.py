"""Stores targets between two passes, and removes the part whose commands have started."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from core.disruption.target.move_price import settings_digest
from core.model.plan import Command, StoredNewNode, StoredSlots, StoredTarget
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot

VERSION: Final = 1
"""Version of the stored bytes; a target of another version is planned again."""

_KIND_BYTES: Final = 6
_DIGEST_BYTES: Final = 16


class _Envelope(msgspec.Struct, frozen=True):
    version: int
    target: StoredTarget


class PodKinds:
    """Identifies kinds of pods stably across runs: by owner, requests and volumes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, tuple[str, ...]], tuple[PodSpec, str]] = {}  # a referenced spec keeps its id

    def of(self, pod: Pod) -> str:
        """Return a short digest of the pod's kind."""
        volumes = pod.claim_names() if pod.spec.volumes else ()
        key = (pod.workload, id(pod.spec), volumes)
        if key not in self._known:
            text = repr((pod.workload, sorted(pod.spec.requests.items()), volumes))
            self._known[key] = pod.spec, blake2b(text.encode(), digest_size=_KIND_BYTES).hexdigest()
        return self._known[key][1]


def encode(target: StoredTarget) -> bytes:
    """Encode a target."""
    return zlib.compress(msgspec.json.encode(_Envelope(VERSION, target), order="sorted"), 9)


def decode(raw: bytes) -> StoredTarget | None:
    """Decode a target; None if another version wrote it or it is damaged, so that it is planned again."""
    try:
        envelope = msgspec.json.decode(zlib.decompress(raw), type=_Envelope)
    except (zlib.error, msgspec.MsgspecError):
        return None
    return envelope.target if envelope.version == VERSION else None


def digest(target: StoredTarget) -> str:
    """Return a digest of the target."""
    return blake2b(msgspec.json.encode(target, order="sorted"), digest_size=_DIGEST_BYTES).hexdigest()


def after_commands(
    target: StoredTarget, commands: Sequence[Command], pods: Iterable[Pod], names: Mapping[str, str]
) -> StoredTarget | None:
    """Return the rest of a target after these of its commands have started; None if no node remains to go.

    Their slots are removed; a new node that they launch becomes an existing node, with slots for pods of later waves.

    Args:
        target: The target that the commands were decided with.
        commands: The commands that have started; others of the same plan stay part of the target.
        pods: The pods of the snapshot that it was decided on.
        names: Planned name of a new node → name of its NodeClaim; the planned name if it is missing.
    """
    gone = {node for command in commands for node in command.nodes}
    drains = tuple(drain for drain in target.drains if drain.node not in gone)
    if not drains:
        return None
    taken = _taken(commands, pods)
    launched = {claim.name: claim.price for command in commands for claim in command.replacements}
    slots = [slot for slot in target.slots if slot.node not in gone]
    slots += [
        StoredSlots(kind, name, count)
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
        kept_by_pool=_with_launched(target.kept_by_pool, commands),
        drained_price=sum(drain.price for drain in drains),
        new_price=target.new_price - sum(price for name, price in launched.items()),
        slots=tuple(_less(sorted(slots), renamed)),
        new_nodes=tuple(_rest_of(new, taken) for new in target.new_nodes if new.name not in launched),
    )


def _taken(commands: Sequence[Command], pods: Iterable[Pod]) -> Counter[tuple[str, str]]:
    """Return (kind, destination) → how many pods the commands move there."""
    to = {move.pod: move.to for command in commands for move in command.moves}
    kinds = PodKinds()
    return Counter((kinds.of(pod), to[pod.key]) for pod in pods if pod.key in to)


def _less(slots: Collection[StoredSlots], taken: Mapping[tuple[str, str], int]) -> Iterable[StoredSlots]:
    for slot in slots:
        pods_left = slot.pods - taken.get((slot.kind, slot.node), 0)
        if pods_left > 0:
            yield StoredSlots(slot.kind, slot.node, pods_left)


def _rest_of(new: StoredNewNode, taken: Mapping[tuple[str, str], int]) -> StoredNewNode:
    """Return a new node that was not launched, without the pods that commands have moved there."""
    pods_left = {kind: count - taken.get((kind, new.name), 0) for kind, count in new.pods.items()}
    return msgspec.structs.replace(new, pods={kind: count for kind, count in pods_left.items() if count > 0})


def _with_launched(kept: Mapping[str, int], commands: Sequence[Command]) -> dict[str, int]:
    """Return NodePool → the price of its nodes that stay, with the commands' new nodes."""
    prices = Counter(kept)
    for command in commands:
        for claim in command.replacements:
            prices[claim.node_pool] += claim.price if kept else 0
    return dict(sorted(prices.items())) if kept else {}


# Divides a target between parts of a cluster, and joins the targets of parts.


def target_of_part(snapshot: Snapshot, part: Snapshot, pool_of_node: Mapping[str, str]) -> StoredTarget | None:
    """Return what the stored target of a snapshot says about a part of it.

    None if that is nothing, cannot be told, or was decided by other settings.

    Args:
        snapshot: The whole cluster, with the target.
        part: Some of its NodePools and their nodes.
        pool_of_node: Name of a node or claim of the cluster → its NodePool.
    """
    target, pools = snapshot.stored_target, {pool.name for pool in part.node_pools}
    if target is None or (target.kept_price and not target.kept_by_pool):
        return None
    if target.settings != settings_digest(snapshot):
        return None
    drains = tuple(drain for drain in target.drains if pool_of_node.get(drain.node, "") in pools)
    if not drains:
        return None
    all_new = sum(new.price for new in target.new_nodes)
    new_nodes = tuple(new for new in target.new_nodes if new.name.rpartition("-")[0] in pools)
    kept = {pool: price for pool, price in target.kept_by_pool.items() if pool in pools}
    return msgspec.structs.replace(
        target,
        settings=settings_digest(part),
        drains=drains,
        kept_price=sum(kept.values()),
        kept_by_pool=kept,
        drained_price=sum(drain.price for drain in drains),
        # Waves may launch cheaper nodes than planned, so the sum is less than that of the nodes.
        new_price=target.new_price * sum(new.price for new in new_nodes) // all_new if all_new else target.new_price,
        slots=tuple(slot for slot in target.slots if pool_of_node.get(slot.node, "") in pools),
        new_nodes=new_nodes,
    )


def joined_targets(targets: Sequence[StoredTarget], snapshot: Snapshot) -> StoredTarget | None:
    """Return the targets of parts of the snapshot as one; None if there is none."""
    if not targets:
        return None
    kept = Counter[str]()
    for target in targets:
        kept.update(target.kept_by_pool)
    return StoredTarget(
        made_at=min(target.made_at for target in targets),
        settings=settings_digest(snapshot),
        drains=tuple(drain for target in targets for drain in target.drains),
        kept_price=sum(target.kept_price for target in targets),
        kept_by_pool=dict(sorted(kept.items())),
        drained_price=sum(target.drained_price for target in targets),
        new_price=sum(target.new_price for target in targets),
        slots=tuple(sorted(slot for target in targets for slot in target.slots)),
        new_nodes=tuple(new for target in targets for new in target.new_nodes),
    )
