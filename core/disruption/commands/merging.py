"""Merges deletions into the command that would move their pods again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from core import labels
from core.model.plan import Command
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from core.scheduling.topology.topology_group import AFFINITY, ANTI_AFFINITY, Namespaces, affinity_group, spread_group


class Merger:
    """Adds commands to those of a pass, merged where a pod would move twice."""

    def __init__(self, snapshot: Snapshot, defaults: DefaultSpreads) -> None:
        """Read the cluster at the beginning of the pass; `defaults` are its default spreads."""
        self._snapshot = snapshot
        self._defaults = defaults

    def added(self, commands: Sequence[Command], command: Command) -> list[Command]:
        """Return the commands with one more.

        Deletions whose pods the new command would move again are merged into it, so that no pod moves twice. Nothing is
        merged, and the commands run one after the other, in five cases:

        - One of those earlier commands has replacements or another reason.
        - The new command has no planned moves, although its nodes have pods (drift of static NodePools, terminate-first).
        - Another command removes a node to which one of the earlier commands moves pods, so it must run between the two.
        - A later command moves a pod that a spread of an earlier command's pod counts: to the same node if the spread is over
          hosts, anywhere if it is over zones or other shared domains. Merged, the earlier pod would come second, and the
          spread may deny it the node.
        - A later command moves a pod that a rule over shared domains connects with one that stays on an earlier command's
          node as long as that exists, such as a DaemonSet's. Merged, the node would still be there.
        """
        going = set(command.nodes)
        earlier = [c for c in commands if any(move.to in going for move in c.moves)]
        has_unplanned_pods = not command.moves and (
            command.replacements or command.method in ("static-drift", "terminate-first")
        )
        if not earlier or has_unplanned_pods or any(c.replacements or c.reason != command.reason for c in earlier):
            return [*commands, command]
        if _is_built_upon(earlier, commands) or any(
            self._is_counted_after(own, earlier, after, command) or self._remains_beside(own, [*after, command])
            for own, after in _with_later(earlier, commands)
        ):
            return [*commands, command]
        # Others that fill the merged command's nodes may have been kept apart by commands that are part of it now.
        return self.added([c for c in commands if c not in earlier], _merged([*earlier, command]))

    def _is_counted_after(
        self, own: Command, earlier: Sequence[Command], after: Sequence[Command], last: Command
    ) -> bool:
        """Whether a pod of one of the earlier commands is counted by where a later command moves another, see `added`.

        Only pods matter that `last` leaves where the earlier command moves them.
        """
        moved_on = {move.pod for move in last.moves}
        on_hosts = [move for later in after if later not in earlier for move in later.moves]
        anywhere = self._moved_by([*after, last])
        for move in own.moves:
            if move.pod in moved_on or move.pod not in self._pods:
                continue
            there = [self._pods[m.pod] for m in on_hosts if m.to == move.to and m.pod in self._pods]
            if self._counts(self._pods[move.pod], there, anywhere):
                return True
        return False

    def _counts(self, owner: Pod, on_host: Iterable[Pod], anywhere: Iterable[Pod]) -> bool:
        """Whether a spread over hosts selects a pod on the owner's new node, or one over shared domains a pod anywhere."""
        spreads = self._defaults.required_of(owner)
        for spread in spreads:
            group = spread_group(spread, spreads, owner.spec, owner.namespace, owner.labels)
            others = on_host if group.is_hostname else anywhere
            if any(group.selects(other.namespace, other.labels) for other in others):
                return True
        return False

    def _remains_beside(self, own: Command, later: Sequence[Command]) -> bool:
        """Whether a rule connects a pod that the command's nodes keep to their end with one that a later command moves."""
        moved = {move.pod for move in own.moves}
        remaining = [pod for name in own.nodes for pod in self._pods_by_node.get(name, ()) if pod.key not in moved]
        return bool(remaining) and any(
            self._are_connected(pod, other) for pod in self._moved_by(later) for other in remaining
        )

    def _are_connected(self, pod: Pod, other: Pod) -> bool:
        """Whether a rule of the pod over shared domains selects the other, or a required anti-affinity of the other the pod."""
        if other.is_active and (self._counts(pod, (), (other,)) or self._selects(AFFINITY, pod, other)):
            return True
        return (other.is_active and self._selects(ANTI_AFFINITY, pod, other)) or self._selects(
            ANTI_AFFINITY, other, pod
        )

    def _selects(self, kind: str, owner: Pod, other: Pod) -> bool:
        for term in owner.spec.affinity if kind == AFFINITY else owner.spec.anti_affinity:
            if term.topology_key != labels.HOSTNAME:
                group = affinity_group(kind, term, owner.namespace, owner.labels, self._namespaces)
                if group.selects(other.namespace, other.labels):
                    return True
        return False

    def _moved_by(self, commands: Iterable[Command]) -> list[Pod]:
        return [self._pods[move.pod] for command in commands for move in command.moves if move.pod in self._pods]

    @cached_property
    def _pods(self) -> dict[str, Pod]:
        return {pod.key: pod for pod in self._snapshot.pods}

    @cached_property
    def _pods_by_node(self) -> dict[str, list[Pod]]:
        """Return node → its pods that have not finished."""
        found: dict[str, list[Pod]] = {}
        for pod in self._snapshot.pods:
            if pod.node_name and not pod.is_terminal:
                found.setdefault(pod.node_name, []).append(pod)
        return found

    @cached_property
    def _namespaces(self) -> Namespaces:
        return Namespaces.of(self._snapshot)


def _is_built_upon(earlier: Sequence[Command], commands: Sequence[Command]) -> bool:
    """Whether another of the commands removes a node to which one of the earlier commands moves pods."""
    filled = {move.to for command in earlier for move in command.moves}
    return any(not filled.isdisjoint(c.nodes) for c in commands if c not in earlier)


def _with_later(earlier: Sequence[Command], commands: Sequence[Command]) -> Iterable[tuple[Command, list[Command]]]:
    """Return each of the earlier commands, with all commands after it."""
    return ((command, list(commands[number + 1 :])) for number, command in enumerate(commands) if command in earlier)


def _merged(parts: Sequence[Command]) -> Command:
    """Return one command for all parts; where two move a pod, the later move counts."""
    last = parts[-1]
    moves = {move.pod: move for part in parts for move in part.moves}
    nodes = [pair for part in parts for pair in zip(part.nodes, part.claims, strict=True)]
    return msgspec.structs.replace(
        last,
        method="multi" if last.method == "single" else last.method,
        nodes=tuple(name for name, _ in nodes),
        claims=tuple(claim for _, claim in nodes),
        moves=tuple(moves[pod] for pod in sorted(moves)),
        savings=sum(part.savings for part in parts),
    )
