"""Assembles the controller of `disrupt`."""

from __future__ import annotations

from lambdas.application.shared_controllers import SharedControllers
from lambdas.controllers.approval.approvals import Approvals
from lambdas.controllers.decision_events import DecisionEvents
from lambdas.controllers.disruption.command_gate import CommandGate
from lambdas.controllers.disruption.command_writer import CommandWriter
from lambdas.controllers.disruption.decision_pass import DecisionPass, SkipConditions
from lambdas.controllers.disruption.deletion_cost_writer import DeletionCostWriter
from lambdas.controllers.disruption.disruption import DisruptionController
from lambdas.controllers.disruption.observed_commands import ObservedCommands
from lambdas.controllers.disruption.run_coordination import RunCoordination
from lambdas.controllers.disruption.target_progress import TargetProgress
from lambdas.controllers.resync.absent_claims import AbsentClaims
from lambdas.controllers.resync.budget_check import BudgetCheck
from lambdas.controllers.resync.disruption_resync import DisruptionResync


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
    costs = DeletionCostWriter(kubernetes, is_on=settings.steer_scale_in)
    decision_pass = DecisionPass(
        observer=observer,
        stores=stores,
        skips=skips,
        target=TargetProgress(adapters.targets, costs),
        approvals=approvals,
        gate=CommandGate(stores.moves),
        writer=CommandWriter(stores.commands, adapters.ledger, adapters.queues.work, clock),
        only_observed=ObservedCommands(adapters.ledger, clock),
        clock=clock,
    )
    return DisruptionController(
        observer=observer,
        stores=stores,
        skips=skips,
        approvals=approvals,
        decision_pass=decision_pass,
        clock=clock,
    )
