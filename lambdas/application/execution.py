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
    given, work = shared.adapters, shared.adapters.queues.work
    kubernetes, stores, leases, clock = given.kubernetes, given.stores, given.leases, given.clock
    tasks, requests = given.run_tasks.messages, given.queues.run_requests
    validator = CommandValidator(
        kubernetes=kubernetes,
        observer=shared.observer,
        stores=stores,
        targets=given.targets,
        leases=leases,
        run_requests=requests,
        clock=clock,
        run_tasks=tasks,
        rule=given.settings.approval_rule(),
    )
    events = DecisionEvents(kubernetes, clock, tasks)
    start = CommandStarter(kubernetes, stores, leases, shared.launcher, shared.observer, work, events, clock)
    giving_up = CommandRollback(kubernetes, stores, shared.claim_deletion, given.queues, clock)
    commands = CommandWork(stores, validator, start, giving_up, shared.claim_deletion, work, clock)
    binder = PodBinder(kubernetes, stores.claims, leases, shared.observer, given.settings, clock, tasks)
    deleted = DeletedNodeClaims(kubernetes, stores.claims, shared.terminator)
    interruptions = Interruptions(stores, given.cloud, shared.claim_deletion, given.queues, given.settings, clock)
    notices = InstanceNotices(
        given.cloud, shared.observer, stores.claims, shared.rebuilding, shared.failed_starts, interruptions, clock
    )
    claim_checks = ClaimChecks(shared.claim_work, deleted, shared.hand_made, notices)
    return Execution(kubernetes, given.cloud, claim_checks, commands, binder, work, clock, tasks)
