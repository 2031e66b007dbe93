"""Merges deletions into the command that would move their pods again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from core.disruption.commands.pod_rules import PodRules, selects_any
from core.model.plan import Command, Move
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from core.scheduling.topology.topology_group import Namespaces


class Merger:
    """Adds commands to those of a pass, merged where a pod would move twice."""

    def __init__(self, snapshot: Snapshot, defaults: DefaultSpreads) -> None:
        """Read the cluster at the beginning of the pass; `defaults` are its default spreads."""
        self._snapshot = snapshot
        self._defaults = defaults
        self._known: dict[str, PodRules] = {}

    def added(self, commands: Sequence[Command], command: Command) -> list[Command]:
        """Return the commands with one more.

        Deletions whose pods the new command would move again are merged into it, so that no pod moves twice. Merged, their
        pods move when the new command's do. Nothing is merged, and the commands run one after the other, in six cases:

        - One of those earlier commands has replacements or another reason.
        - The new command has no planned moves, although its nodes have pods (drift of static NodePools, terminate-first).
        - Another command removes a node to which one of the earlier commands moves pods, so it must run between the two.
        - A later command moves a pod that a spread of an earlier command's pod counts: to the same node if the spread is over
          hosts, anywhere if it is over zones or other shared domains. The earlier pod would come second, and the spread may
          deny it the node.
        - A later command that stays apart moves a pod that a rule over shared domains connects with an earlier command's
          pod, or that must be near it on its node. It would move while the other is still on its old node.
        - A later command moves a pod that a rule over shared domains connects with one that stays on an earlier command's
          node as long as that exists, such as a DaemonSet's. The node would still be there.
        """
        going = set(command.nodes)
        earlier = [c for c in commands if any(move.to in going for move in c.moves)]
        has_unplanned_pods = not command.moves and (
            command.replacements or command.method in ("static-drift", "terminate-first")
        )
        if not earlier or has_unplanned_pods or any(c.replacements or c.reason != command.reason for c in earlier):
            return [*commands, command]
        if _is_built_upon(earlier, commands) or any(
            self._comes_first(own, [c for c in after if c not in earlier], [*after, command], command)
            for own, after in _with_later(earlier, commands)
        ):
            return [*commands, command]
        # Others that fill the merged command's nodes may have been kept apart by commands that are part of it now.
        return self.added([c for c in commands if c not in earlier], _merged([*earlier, command]))

    def _comes_first(self, own: Command, apart: Sequence[Command], later: Sequence[Command], last: Command) -> bool:
        """Whether one of the earlier commands must come before others, see `added`; `apart` are those that stay apart."""
        return (
            self._is_counted_after(own, apart, later, last)
            or self._is_followed(own, apart, last)
            or self._remains_beside(own, later)
        )

    def _is_counted_after(
        self, own: Command, apart: Sequence[Command], later: Sequence[Command], last: Command
    ) -> bool:
        """Whether a spread of one of the command's pods counts a pod where a later command moves it.

        Only pods matter that `last` leaves where the command moves them.
        """
        moved_on = {move.pod for move in last.moves}
        arriving = self._moved_by(later)
        for move, pod in self._moved(own):
            if move.pod in moved_on:
                continue
            there = [other for other_move, other in self._moved_by(apart) if other_move.to == move.to]
            rules = self._rules(pod)
            if selects_any(rules.host_spreads, there) or selects_any(rules.wide_spreads, (o for _, o in arriving)):
                return True
        return False

    def _is_followed(self, own: Command, apart: Sequence[Command], last: Command) -> bool:
        """Whether another command moves a pod after one of the command's pods, and a rule connects the two.

        The affinity of a pod that `last` moves on does not matter: it is asked once the others have moved.
        """
        moved_on = {move.pod for move in last.moves}
        followers = self._moved_by(apart)
        for move, pod in self._moved(own):
            rules = self._rules(pod)
            own_rules = rules.wide_anti_affinity if move.pod in moved_on else rules.wide
            if selects_any(own_rules, (follower for _, follower in followers)):
                return True
            for other, follower in followers:
                theirs = self._rules(follower)
                if selects_any(theirs.wide, (pod,)) or (
                    move.to == other.to and selects_any(theirs.host_affinity, (pod,))
                ):
                    return True
        return False

    def _remains_beside(self, own: Command, later: Sequence[Command]) -> bool:
        """Whether a rule connects a pod that the command's nodes keep to their end with one that a later command moves."""
        moved = {move.pod for move in own.moves}
        remaining = [pod for name in own.nodes for pod in self._pods_by_node.get(name, ()) if pod.key not in moved]
        active = [pod for pod in remaining if pod.is_active]
        return bool(remaining) and any(
            selects_any(self._rules(pod).wide, active)
            or any(selects_any(self._rules(other).wide_anti_affinity, (pod,)) for other in remaining)
            for _, pod in self._moved_by(later)
        )

    def _moved_by(self, commands: Iterable[Command]) -> list[tuple[Move, Pod]]:
        """Return the moves of these commands, with the pods; without pods that have ended since."""
        return [found for command in commands for found in self._moved(command)]

    def _moved(self, command: Command) -> list[tuple[Move, Pod]]:
        return [(move, self._pods[move.pod]) for move in command.moves if move.pod in self._pods]

    def _rules(self, pod: Pod) -> PodRules:
        found = self._known.get(pod.key)
        if found is None:
            found = self._known[pod.key] = PodRules.of(pod, self._defaults, self._namespaces)
        return found

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
