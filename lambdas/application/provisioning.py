"""Assembles the controller of `provision`."""

from __future__ import annotations

from lambdas.application.shared_controllers import SharedControllers
from lambdas.controllers.draining import Replacing
from lambdas.controllers.events import DecisionEvents, ObjectWarnings
from lambdas.controllers.planning import (
    ObservedPlans,
    PlanDecision,
    PlanLaunches,
    PlanPublisher,
    PodBatcher,
    UnschedulableEvents,
)
from lambdas.controllers.provisioning import ClaimRecords, HalfGroups, LostRows, NextRun, Provisioning
from lambdas.controllers.resync import AbsentClaims
from lambdas.controllers.status_writer import RoomStatus


def provisioning(shared: SharedControllers) -> Provisioning:
    """Return the controller of one sandbox."""
    adapters = shared.adapters
    kubernetes, stores, settings, clock = adapters.kubernetes, adapters.stores, adapters.settings, adapters.clock
    judging = shared.observer.judging(adapters.cloud)
    events, rooms = UnschedulableEvents(kubernetes, clock), RoomStatus(kubernetes, clock)
    decided = DecisionEvents(kubernetes, clock, adapters.run_tasks.messages)
    decision = PlanDecision(judging, adapters.ledger, settings, clock, ObjectWarnings(kubernetes, clock))
    return Provisioning(
        observer=judging,
        batcher=PodBatcher(judging, settings, clock, adapters.pause),
        lost_rows=LostRows(adapters.cloud, judging, shared.rebuilding, stores.claims, clock),
        stores=stores,
        targets=adapters.targets,
        leases=adapters.leases,
        decision=decision,
        claim_records=ClaimRecords(shared.launcher, clock, at_most=settings.launches_per_run),
        launches=PlanLaunches(shared.parallel_launches, adapters.queues.work, clock),
        half_groups=HalfGroups(shared.claim_deletion, stores.claims, adapters.queues.work, clock),
        publisher=PlanPublisher(events, decided, rooms, stores.nominations, clock),
        replacing=Replacing(stores.claims),
        observed=ObservedPlans(decision, adapters.ledger),
        absent=AbsentClaims(stores.changes),
        next_run=NextRun(adapters.queues.wake_ups, clock),
        settings=settings,
        clock=clock,
    )
