"""Limits a NodePool whose breaker is half open to one disruption command at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from core.model.plan import Command


def one_at_a_time(
    commands: Iterable[Command], under_way: Iterable[Command], pool_of: Mapping[str, str], probed: Collection[str]
) -> tuple[Command, ...]:
    """Return those of `commands`, in order, that may begin in addition to the commands in progress.

    Args:
        commands: The decided commands.
        under_way: Commands that began before.
        pool_of: Claim → its NodePool.
        probed: NodePools whose breaker is half open.
    """
    busy = {pool_of.get(claim, "") for command in under_way for claim in command.claims}
    found: list[Command] = []
    for command in commands:
        tried = {pool_of.get(claim, "") for claim in command.claims}.intersection(probed)
        if not tried & busy:
            found.append(command)
            busy |= tried
    return tuple(found)
