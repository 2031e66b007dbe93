"""Assembles the controllers of one sandbox from its adapters."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from lambdas.application.adapters import Adapters

if TYPE_CHECKING:
    from lambdas.controllers.batches.execution import Execution
    from lambdas.controllers.disruption.disruption import DisruptionController
    from lambdas.controllers.disruption.shadow_disruption import ShadowDisruption
    from lambdas.controllers.events.audit_log import AuditLog
    from lambdas.controllers.events.interruption import Interruptions
    from lambdas.controllers.launching.failed_starts import FailedStarts
    from lambdas.controllers.launching.launch_requests import LaunchRequests
    from lambdas.controllers.launching.launch_waves import LaunchWaves
    from lambdas.controllers.launching.launching import Launcher
    from lambdas.controllers.maintenance.catalogue import CatalogueRefresh
    from lambdas.controllers.maintenance.quotas import QuotaRefresh
    from lambdas.controllers.maintenance.reconciliation import Reconciliation
    from lambdas.controllers.node_claims.node_claim_mirror import NodeClaimMirror
    from lambdas.controllers.node_lifecycle.claim_deletion import ClaimDeletion
    from lambdas.controllers.node_lifecycle.claim_work import ClaimWork
    from lambdas.controllers.provisioning.provisioning import Provisioning
    from lambdas.controllers.provisioning.shadow_provisioning import ShadowProvisioning
    from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
    from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding
    from lambdas.controllers.sweeps.sweep import Sweep
    from lambdas.observation.observer import Observer


class Application:
    """The controllers of a sandbox. Each is created on first use, so a function loads only what it needs."""

    def __init__(self, adapters: Adapters) -> None:
        self.adapters = adapters

    @cached_property
    def audit_log(self) -> AuditLog:
        """Controller of `watch_audit_log`."""
        from lambdas.controllers.events.audit_log import AuditLog

        return AuditLog(self.adapters.queues, self.adapters.pod_ends, self.adapters.clock)

    @cached_property
    def provisioning(self) -> Provisioning:
        """Controller of `provision`."""
        from lambdas.controllers.decision_events import DecisionEvents
        from lambdas.controllers.draining.replacements import Replacing
        from lambdas.controllers.provisioning.claim_records import ClaimRecords
        from lambdas.controllers.provisioning.lost_rows import LostRows
        from lambdas.controllers.provisioning.next_run import NextRun
        from lambdas.controllers.provisioning.observed_plans import ObservedPlans
        from lambdas.controllers.provisioning.pending_work import PodBatcher
        from lambdas.controllers.provisioning.plan_decision import PlanDecision
        from lambdas.controllers.provisioning.plan_launches import PlanLaunches
        from lambdas.controllers.provisioning.plan_publisher import PlanPublisher
        from lambdas.controllers.provisioning.provisioning import Provisioning
        from lambdas.controllers.provisioning.unschedulable_events import UnschedulableEvents
        from lambdas.controllers.resync.absent_claims import AbsentClaims
        from lambdas.controllers.status.buffer_status import BufferStatus

        given = self.adapters
        kubernetes, stores, settings, clock = given.kubernetes, given.stores, given.settings, given.clock
        observer = self.observer.judging(given.cloud)
        events, buffers = UnschedulableEvents(kubernetes, clock), BufferStatus(kubernetes, clock)
        decided = DecisionEvents(kubernetes, clock, given.run_tasks.messages)
        decision = PlanDecision(observer, given.ledger, settings, clock)
        return Provisioning(
            observer=observer,
            batcher=PodBatcher(observer, settings, clock, given.pause),
            lost_rows=LostRows(given.cloud, observer, self._rebuilding, stores.claims, clock),
            stores=stores,
            leases=given.leases,
            decision=decision,
            claim_records=ClaimRecords(self._launcher, clock, at_most=settings.launches_per_run),
            launches=PlanLaunches(self._launch_waves, given.queues.work, clock),
            publisher=PlanPublisher(events, decided, buffers, stores.nominations, clock),
            replacing=Replacing(stores.claims),
            observed=ObservedPlans(decision, given.ledger),
            absent=AbsentClaims(stores.changes),
            next_run=NextRun(given.queues.wake_ups, clock),
            settings=settings,
            clock=clock,
        )

    @cached_property
    def disruption(self) -> DisruptionController:
        """Controller of `disrupt`."""
        from lambdas.application.disruption import disruption

        return disruption(self.adapters, self.observer)

    @cached_property
    def shadow_provisioning(self) -> ShadowProvisioning:
        """Controller of `provision` with `mode: shadow`."""
        from lambdas.controllers.provisioning.observed_plans import ObservedPlans
        from lambdas.controllers.provisioning.plan_decision import PlanDecision
        from lambdas.controllers.provisioning.shadow_provisioning import ShadowProvisioning

        given = self.adapters
        decision = PlanDecision(self.observer, given.ledger, given.settings, given.clock)
        plans = ObservedPlans(decision, given.ledger)
        return ShadowProvisioning(self.observer, plans, given.queues.wake_ups, given.settings, given.clock)

    @cached_property
    def shadow_disruption(self) -> ShadowDisruption:
        """Controller of `disrupt` with `mode: shadow`."""
        from lambdas.controllers.disruption.observed_commands import ObservedCommands
        from lambdas.controllers.disruption.shadow_disruption import ShadowDisruption

        return ShadowDisruption(self.observer, ObservedCommands(self.adapters.ledger, self.adapters.clock))

    @cached_property
    def execution(self) -> Execution:
        """Controller of `execute`."""
        from lambdas.controllers.batches.binding.pod_binder import PodBinder
        from lambdas.controllers.batches.claim_group import ClaimChecks
        from lambdas.controllers.batches.execution import Execution
        from lambdas.controllers.decision_events import DecisionEvents
        from lambdas.controllers.disruption.execution.command_validator import CommandValidator
        from lambdas.controllers.disruption.execution.command_work import CommandWork
        from lambdas.controllers.disruption.execution.rollback import CommandRollback
        from lambdas.controllers.disruption.execution.start import CommandStarter
        from lambdas.controllers.events.instance_notices import InstanceNotices
        from lambdas.controllers.events.interruption import Interruptions
        from lambdas.controllers.node_claims.hand_made_claims import HandMadeClaims
        from lambdas.controllers.sweeps.nodes.deleted_node_claims import DeletedNodeClaims

        given, work = self.adapters, self.adapters.queues.work
        kubernetes, stores, leases, clock = given.kubernetes, given.stores, given.leases, given.clock
        validator = CommandValidator(self.observer, stores, given.targets, leases, given.queues.run_requests, clock)
        events = DecisionEvents(kubernetes, clock, given.run_tasks.messages)
        start = CommandStarter(kubernetes, stores, leases, self._launcher, self.observer, work, events, clock)
        giving_up = CommandRollback(kubernetes, stores, self.claim_deletion, given.queues, clock)
        commands = CommandWork(stores, validator, start, giving_up, self.claim_deletion, work, clock)
        tasks = given.run_tasks.messages
        binder = PodBinder(kubernetes, stores.claims, leases, given.settings, clock, tasks)
        mirror, deleted = self.node_claims, DeletedNodeClaims(kubernetes, stores.claims, self._terminator)
        hand_made = HandMadeClaims(
            kubernetes, stores.claims, self.observer, self._launcher, mirror, stores.brakes, clock
        )
        interruptions = Interruptions(stores, given.cloud, self.claim_deletion, given.queues, given.settings, clock)
        notices = InstanceNotices(
            given.cloud, self.observer, stores.claims, self._rebuilding, self._failed_starts, interruptions, clock
        )
        claim_checks = ClaimChecks(self.claim_work, deleted, hand_made, notices)
        return Execution(kubernetes, given.cloud, claim_checks, commands, binder, work, clock, tasks)

    @cached_property
    def interruptions(self) -> Interruptions:
        """Controller of `interrupt`."""
        from lambdas.brakes.brake_reader import Panel
        from lambdas.controllers.events.interruption import Interruptions

        # Only the kill switch delays involuntary changes of a node, and an event needs no further reads.
        given = self.adapters
        stores = msgspec.structs.replace(given.stores, brakes=Panel(given.kill_switch, given.clock))
        return Interruptions(stores, given.cloud, self.claim_deletion, given.queues, given.settings, given.clock)

    @cached_property
    def reconciliation(self) -> Reconciliation:
        """Controller of `reconcile`."""
        from lambdas.controllers.maintenance.observed_pools import ObservedPoolBrakes
        from lambdas.controllers.maintenance.reconciliation import Reconciliation
        from lambdas.controllers.resync.reconciliation_resync import ReconciliationResync

        given = self.adapters
        resync = ReconciliationResync(given.stores)
        pools = ObservedPoolBrakes(given.brakes, given.brake_rows, given.clock)
        return Reconciliation(
            cloud=given.cloud,
            observer=self.observer,
            resync=resync,
            observed_pools=pools,
            sweeps=self.sweeps,
            log=given.sweep_log,
            unreadable=given.stores.unreadable,
            clock=given.clock,
        )

    @cached_property
    def sweeps(self) -> tuple[Sweep, ...]:
        """Sweeps of `reconcile`."""
        from lambdas.application.sweeps import sweeps

        return sweeps(
            self.adapters, self.observer, self._terminator, self._rebuilding, self._failed_starts, self.node_claims
        )

    @cached_property
    def catalogue_refresh(self) -> CatalogueRefresh:
        """Controller of `refresh_catalogue`."""
        from lambdas.controllers.maintenance.catalogue import CatalogueRefresh

        return CatalogueRefresh(self.adapters.catalogue_source, self.adapters.catalogues, self.adapters.clock)

    @cached_property
    def quota_refresh(self) -> QuotaRefresh:
        """The other controller of `refresh_catalogue`."""
        from lambdas.controllers.maintenance.quotas import QuotaRefresh

        return QuotaRefresh(self.adapters.quota_source, self.adapters.quotas)

    @cached_property
    def observer(self) -> Observer:
        """Observer of the cluster."""
        from lambdas.observation.observer import Observer

        given = self.adapters
        return Observer(given.kubernetes, given.catalogues, given.stores, given.settings, given.clock)

    @cached_property
    def claim_work(self) -> ClaimWork:
        """Advances a claim to its next step."""
        from lambdas.controllers.node_lifecycle.claim_launch import ClaimLaunch
        from lambdas.controllers.node_lifecycle.claim_work import ClaimWork

        given, wake_ups = self.adapters, self.adapters.queues.wake_ups
        launch = ClaimLaunch(given.stores.claims, self._launcher, self.observer, wake_ups, given.clock)
        return ClaimWork(
            given.kubernetes,
            given.stores,
            launch,
            self._failed_starts,
            self.claim_deletion,
            given.settings,
            given.queues,
            given.clock,
        )

    @cached_property
    def claim_deletion(self) -> ClaimDeletion:
        """Stores that claims leave, and ends them."""
        from lambdas.controllers.node_lifecycle.claim_deletion import ClaimDeletion

        given, stores = self.adapters, self.adapters.stores
        return ClaimDeletion(given.cloud, stores.claims, stores.breakers, given.queues.wake_ups, given.clock)

    @cached_property
    def node_claims(self) -> NodeClaimMirror:
        """The mirror, for functions that change claims: it records each change, and writes NodeClaims at the end of a run."""
        from lambdas.controllers.node_claims.karpenter_presence import KarpenterPresence
        from lambdas.controllers.node_claims.node_claim_mirror import NodeClaimMirror

        given, tasks = self.adapters, self.adapters.run_tasks.messages
        karpenter = KarpenterPresence(given.kubernetes, given.clock)
        is_on = given.settings.mirror_node_claims
        mirror = NodeClaimMirror(given.kubernetes, karpenter, given.clock, tasks, is_on=is_on)
        given.claims.listen(mirror.note)
        return mirror

    @cached_property
    def _terminator(self) -> ClaimTerminator:
        from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator

        given, work = self.adapters, self.adapters.queues.work
        return ClaimTerminator(given.stores.claims, self.claim_deletion, given.brakes, work, given.clock)

    @cached_property
    def _launch_requests(self) -> LaunchRequests:
        from lambdas.controllers.launching.launch_requests import LaunchRequests

        given, gates = self.adapters, self.adapters.settings.options().feature_gates
        return LaunchRequests(
            given.cloud,
            given.stores,
            cluster=given.settings.cluster_name,
            uses_reservations=gates.reserved_capacity,
        )

    @cached_property
    def _failed_starts(self) -> FailedStarts:
        from lambdas.controllers.launching.failed_starts import FailedStarts

        given = self.adapters
        return FailedStarts(given.cloud, given.stores, self.observer, given.clock)

    @cached_property
    def _launch_waves(self) -> LaunchWaves:
        from lambdas.controllers.launching.launch_waves import LaunchWaves

        given, at_most = self.adapters, self.adapters.settings.launches_per_run
        tasks = given.run_tasks.launches
        return LaunchWaves(self._launch_requests, self._launcher, tasks, given.clock, at_most=at_most)

    @cached_property
    def _launcher(self) -> Launcher:
        from lambdas.controllers.launching.launching import Launcher

        given = self.adapters
        return Launcher(self._launch_requests, given.stores.claims, cluster=given.settings.cluster_name)

    @cached_property
    def _rebuilding(self) -> Rebuilding:
        from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding

        given, work = self.adapters, self.adapters.queues.work
        return Rebuilding(given.cloud, self._launcher, given.stores.claims, self.observer, work, given.clock)
