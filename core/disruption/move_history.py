"""Records whether commands that moved pods saved money, and which moves are not repeated for a while (docs/adr/0047).

A plan says where pods go, but kube-scheduler binds their successors where it likes. If a node is then launched for a pod whose
planned place was taken, the command saved nothing, and repeating it would save nothing again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from core.disruption.rollouts import Rollout
from core.model.moved_workload import EvictedNode, MovedWorkload
from core.model.plan import Command
from core.model.pod import Pod
from core.reasons.termination import TerminationReason

WATCHED_FOR: Final = timedelta(minutes=10)
"""How long after the removal of a command's nodes launches are attributed to it: its pods are evicted and bound meanwhile."""

PAYS_FROM: Final = 2
"""A command did not pay if the nodes launched since cost at least 1/`PAYS_FROM` of its saving."""

FIRST_HOLD: Final = timedelta(hours=1)
LONGEST_HOLD: Final = timedelta(hours=24)
"""The longest time for which workloads are not moved after a command that did not pay; it doubles with each in a row."""

FORGOTTEN_AFTER: Final = timedelta(days=3)
"""How long the length of a hold is remembered after its end."""

FIRST_PAUSE: Final = timedelta(minutes=2)
LONGEST_PAUSE: Final = timedelta(minutes=30)
"""The longest time for which a command that failed validation is not decided again; it doubles with each failure in a row."""

FAILURE_FORGOTTEN_AFTER: Final = timedelta(hours=1)


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation that was carried out.

    Attributes:
        workloads: The workloads whose pods it moved.
        savings: Nano-dollars per hour, as decided.
        carried_out_at: When the removal of its nodes began.
        spent: Nano-dollars per hour of the nodes that were launched since for what it moved.
    """

    command: str
    workloads: tuple[str, ...]
    savings: int
    carried_out_at: datetime
    spent: int = 0

    @property
    def did_not_pay(self) -> bool:
        """Whether it did not pay."""
        return self.spent > 0 and self.spent * PAYS_FROM >= self.savings


class FailedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that failed validation. `key` identifies its method and its nodes."""

    key: str
    failures: int
    until: datetime


class MoveHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The records by workload name, command id, key, NodePool and NodeClaim; or those of them that must be written."""

    workloads: dict[str, MovedWorkload] = {}
    outcomes: dict[str, CommandOutcome] = {}
    failures: dict[str, FailedCommand] = {}
    rollouts: dict[str, Rollout] = {}
    evicted_nodes: dict[str, EvictedNode] = {}

    def unsettled(self, now: datetime) -> dict[str, MovedWorkload]:
        """Return the workloads some or all of whose pods consolidation does not move, by name."""
        return {
            name: found
            for name, found in sorted(self.workloads.items())
            if now < found.settles_at or (found.held_until is not None and now < found.held_until)
        }

    def is_paused(self, command: Command, now: datetime) -> bool:
        """Whether the command failed recently and must not be tried yet."""
        failed = self.failures.get(key_of(command))
        return failed is not None and now < failed.until

    def after_command(
        self,
        command_id: str,
        command: Command,
        workloads: Collection[str],
        now: datetime,
        drained: Mapping[str, EvictedNode] | None = None,
    ) -> MoveHistory:
        """Return the changed records when the removal of a command's nodes begins, whose pods belong to these workloads.

        `drained` has these nodes by claim, with the number of pods that each loses.
        """
        moved = {name: _moved(self.workloads.get(name), name, now) for name in sorted(workloads)}
        outcomes: dict[str, CommandOutcome] = {}
        if command.reason == TerminationReason.UNDERUTILIZED and moved:
            before = self.outcomes.get(command_id)  # other nodes of the command were removed earlier
            known = CommandOutcome(command=command_id, workloads=(), savings=command.savings, carried_out_at=now)
            workloads_of_all = sorted({*moved, *(before or known).workloads})
            outcomes[command_id] = msgspec.structs.replace(
                before or known, workloads=tuple(workloads_of_all), carried_out_at=now
            )
        return MoveHistory(workloads=moved, outcomes=outcomes, evicted_nodes=dict(drained or {}))

    def after_launch(self, launches: Sequence[LaunchedNode], now: datetime) -> MoveHistory:
        """Return the changed records after a launch: watched commands are charged for nodes that serve their moved pods."""
        watched = [found for _, found in sorted(self.outcomes.items()) if now - found.carried_out_at < WATCHED_FOR]
        spent = dict.fromkeys((found.command for found in watched), 0)
        for launch in launches:
            served = [found for found in watched if launch.serves(found.workloads)]
            for found in served:
                spent[found.command] += launch.price // len(served)
        charged = {
            found.command: msgspec.structs.replace(found, spent=found.spent + spent[found.command])
            for found in watched
            if spent[found.command]
        }
        unpaid = [c for c in charged.values() if c.did_not_pay and not self.outcomes[c.command].did_not_pay]
        names = sorted({name for found in unpaid for name in found.workloads})
        changed = {name: _with_hold(self.workloads.get(name), name, now) for name in names}
        return MoveHistory(workloads=changed, outcomes=charged)

    def after_failure(self, command: Command, now: datetime) -> MoveHistory:
        """Return the changed records when a command fails validation."""
        key = key_of(command)
        before = self.failures.get(key)
        failures = 1
        if before is not None and now - before.until < FAILURE_FORGOTTEN_AFTER:
            failures += before.failures
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10))
        return MoveHistory(failures={key: FailedCommand(key=key, failures=failures, until=now + pause)})


class LaunchedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A launched node, with the workloads that it is for, or whether it is for a capacity buffer.

    Attributes:
        for_buffer: Whether it is for a capacity buffer. Moved pods of any workload may have taken the buffer's room.
        price: Nano-dollars per hour.
    """

    workloads: frozenset[str]
    for_buffer: bool
    price: int

    def serves(self, workloads: Iterable[str]) -> bool:
        """Whether the node may be needed because pods of these workloads were moved."""
        return self.for_buffer or not self.workloads.isdisjoint(workloads)


def key_of(command: Command) -> str:
    """Return a key that is equal for the same command decided again."""
    text = "/".join((command.reason, command.method, *sorted(command.claims)))
    return blake2b(text.encode(), digest_size=10).hexdigest()


def first_reason(workloads: Mapping[str, MovedWorkload], pods: Iterable[Pod], now: datetime) -> str:
    """Return why consolidation must not move these pods of a node now, empty if it may."""
    if not workloads:
        return ""
    for pod in pods:
        found = workloads.get(pod.workload)
        why = found.keeps(pod, now) if found is not None else ""
        if why:
            return why
    return ""


def _moved(before: MovedWorkload | None, name: str, now: datetime) -> MovedWorkload:
    if before is None:
        return MovedWorkload(name=name, moving_since=now, moved_at=now)
    since = now if now >= before.settles_at else before.moving_since
    return msgspec.structs.replace(before, moving_since=since, moved_at=now)


def _with_hold(before: MovedWorkload | None, name: str, now: datetime) -> MovedWorkload:
    known = before or MovedWorkload(name=name, moving_since=now, moved_at=now)
    if known.held_until is not None and now < known.held_until:  # another command of the same round
        return known
    in_row = known.held_until is not None and now - known.held_until < FORGOTTEN_AFTER
    unpaid_moves = known.unpaid_moves + 1 if in_row else 1
    hold = min(LONGEST_HOLD, FIRST_HOLD * 2 ** min(unpaid_moves - 1, 10))
    return msgspec.structs.replace(known, unpaid_moves=unpaid_moves, held_until=now + hold)
