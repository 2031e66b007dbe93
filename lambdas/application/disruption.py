"""Assembles the controller of `disrupt`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambdas.application.shared_controllers import SharedControllers
from lambdas.controllers.approvals import Approvals
from lambdas.controllers.disruption import (
    CommandAnnouncer,
    CommandGate,
    CommandWriter,
    DecisionPass,
    DisruptionController,
    ObservedCommands,
    SkipConditions,
)
from lambdas.controllers.disruption_state import DeletionCostWriter, RunCoordination, TargetProgress
from lambdas.controllers.events import DecisionEvents, ObjectWarnings
from lambdas.controllers.resync import AbsentClaims, BudgetCheck, DisruptionResync

if TYPE_CHECKING:
    from adapters.composition.functions import Adapters
    from lambdas.cluster_parts import DistributedParts


def disruption(shared: SharedControllers) -> DisruptionController:
    """Return the controller of one sandbox."""
    adapters, observer = shared.adapters, shared.observer
    kubernetes, stores, settings, clock = adapters.kubernetes, adapters.stores, adapters.settings, adapters.clock
    skips = SkipConditions(
        absent=AbsentClaims(stores.changes),
        budgets=BudgetCheck(kubernetes, settings, clock),
        resync=DisruptionResync(kubernetes, stores.changes, clock, adapters.pause),
        turns=RunCoordination(adapters.leases, adapters.queues.run_requests, clock),
    )
    events = DecisionEvents(kubernetes, clock, adapters.run_tasks.messages)
    rule, cluster = settings.approval_rule(), settings.cluster_name
    approvals = Approvals(rule, adapters.proposals, adapters.approval_topic, events, cluster=cluster, clock=clock)
    costs = DeletionCostWriter(kubernetes, is_on=settings.steers_scale_in)
    parts = _distributed_parts(adapters)
    decision_pass = DecisionPass(
        observer=observer,
        stores=stores,
        skips=skips,
        target=TargetProgress(adapters.targets, costs),
        approvals=approvals,
        gate=CommandGate(stores.moves),
        writer=CommandWriter(stores.commands, adapters.ledger, adapters.queues.work, clock),
        announcer=CommandAnnouncer(adapters.command_topic, cluster),
        only_observed=ObservedCommands(adapters.ledger, clock),
        warnings=ObjectWarnings(kubernetes, clock),
        clock=clock,
        parts=parts,
    )
    return DisruptionController(
        observer=observer,
        stores=stores,
        skips=skips,
        approvals=approvals,
        decision_pass=decision_pass,
        clock=clock,
        parts=parts,
    )


def _distributed_parts(adapters: Adapters) -> DistributedParts | None:
    """Return what starts and joins executions; None if the installation has no state machine."""
    settings, machine = adapters.settings, adapters.parts_machine
    if settings.distribute_from is None or machine is None:
        return None
    from lambdas.cluster_parts import DistributedParts, PartsStore  # for large clusters alone

    store = PartsStore(adapters.part_objects, settings.cluster_name)
    return DistributedParts(store, adapters.leases, machine, adapters.clock, nodes_from=settings.distribute_from)
