"""Assembles the controller of `execute`."""

from __future__ import annotations

from lambdas.application.shared_controllers import SharedControllers
from lambdas.controllers.binding import PodBinder
from lambdas.controllers.command_work import CommandRollback, CommandStarter, CommandValidator, CommandWork
from lambdas.controllers.events import DecisionEvents
from lambdas.controllers.execution import ClaimChecks, Execution
from lambdas.controllers.instance_notices import InstanceNotices
from lambdas.controllers.interruption import Interruptions
from lambdas.controllers.node_claims import DeletedNodeClaims


def execution(shared: SharedControllers) -> Execution:
    """Return the controller of one sandbox."""
    adapters, work = shared.adapters, shared.adapters.queues.work
    kubernetes, stores, leases, clock = adapters.kubernetes, adapters.stores, adapters.leases, adapters.clock
    tasks, requests = adapters.run_tasks.messages, adapters.queues.run_requests
    validator = CommandValidator(
        kubernetes=kubernetes,
        observer=shared.observer,
        stores=stores,
        targets=adapters.targets,
        leases=leases,
        run_requests=requests,
        clock=clock,
        run_tasks=tasks,
        rule=adapters.settings.approval_rule(),
    )
    events = DecisionEvents(kubernetes, clock, tasks)
    start = CommandStarter(kubernetes, stores, leases, shared.launcher, shared.observer, work, events, clock)
    giving_up = CommandRollback(kubernetes, stores, shared.claim_deletion, adapters.queues, clock)
    commands = CommandWork(stores, validator, start, giving_up, shared.claim_deletion, work, clock)
    binder = PodBinder(kubernetes, stores.claims, leases, shared.observer, adapters.settings, clock, tasks)
    deleted = DeletedNodeClaims(kubernetes, stores.claims, shared.terminator)
    interruptions = Interruptions(
        stores, adapters.cloud, shared.claim_deletion, adapters.queues, adapters.settings, clock
    )
    notices = InstanceNotices(
        adapters.cloud, shared.observer, stores.claims, shared.rebuilding, shared.failed_starts, interruptions, clock
    )
    claim_checks = ClaimChecks(shared.claim_work, deleted, shared.hand_made, notices)
    return Execution(kubernetes, adapters.cloud, claim_checks, commands, binder, work, clock, tasks)
