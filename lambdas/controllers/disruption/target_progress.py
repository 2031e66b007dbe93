"""Stores the target of the fleet between two passes: each pass continues with the next wave instead of planning again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import msgspec

from adapters.ports import PortError
from adapters.run_report import RunReport
from adapters.store import Targets
from core.disruption.stored_targets import after_commands, digest
from core.lifecycle.commands import names_of_replacements
from core.model.plan import Command, DisruptionPlan, StoredTarget
from core.model.snapshot import TARGET_AGE_MAX, Snapshot
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from lambdas.controllers.disruption.deletion_cost_writer import DeletionCostWriter

RENEWED_AFTER: Final = TARGET_AGE_MAX / 2
"""The time of an equal target is stored after this long: while its commands cannot begin, each pass decides the same again."""


class TargetProgress:
    """One cluster's target. A lost target costs one more search in the next pass, so a failure to store it stops nothing."""

    def __init__(self, targets: Targets, costs: DeletionCostWriter) -> None:
        self._targets = targets
        self._costs = costs

    def with_target(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the stored target. Raises PortError."""
        return msgspec.structs.replace(snapshot, stored_target=self._targets.read())

    def keep(
        self, snapshot: Snapshot, plan: DisruptionPlan, begun: Iterable[tuple[str, Command]], report: RunReport
    ) -> None:
        """Store the rest of the plan's target without these started commands, by id; mark pods that go next.

        A command that is abandoned needs no entry: its nodes are candidates again in the next pass.
        """
        if plan.target_reason:
            report.count(plan.target_reason[0].lower() + plan.target_reason[1:])
        self._costs.write(snapshot, plan.target, report)
        left = remaining_target(snapshot, plan, begun)
        report.count("targetDrains", len(left.drains) if left is not None else 0)
        if _is_stored(left, snapshot.stored_target):
            return
        try:
            self._targets.write(left)
        except PortError as error:
            report.decide(DecisionKind.SKIP, "target", RunReason.TARGET_NOT_KEPT, str(error))


def remaining_target(
    snapshot: Snapshot, plan: DisruptionPlan, begun: Iterable[tuple[str, Command]]
) -> StoredTarget | None:
    """Return the plan's target without what these commands do."""
    if plan.target is None:
        return None
    commands, names = list[Command](), dict[str, str]()
    for command_id, command in begun:
        commands.append(command)
        launched = names_of_replacements(command_id, command)
        names |= {claim.name: name for claim, name in zip(command.replacements, launched, strict=True)}
    return after_commands(plan.target, commands, snapshot.pods, names)


def _is_stored(left: StoredTarget | None, stored: StoredTarget | None) -> bool:
    """Whether the stored target needs no change. One that was only decided again gets its new time before it is too old."""
    if left is None or stored is None:
        return left is stored
    if timedelta(0) <= left.made_at - stored.made_at < RENEWED_AFTER:
        left = msgspec.structs.replace(left, made_at=stored.made_at)
    return digest(left) == digest(stored)
