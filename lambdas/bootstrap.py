"""The only place where ports meet adapters: what one sandbox keeps between its invocations."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from lambdas.adapters.aws.dynamodb.changes import DynamoChanges
from lambdas.adapters.aws.dynamodb.claims import DynamoClaims
from lambdas.adapters.aws.dynamodb.commands import DynamoCommands
from lambdas.adapters.aws.dynamodb.denials import DynamoDenials
from lambdas.adapters.aws.dynamodb.leases import DynamoLeases
from lambdas.adapters.aws.dynamodb.nominations import DynamoNominations
from lambdas.adapters.aws.dynamodb.sweeps import DynamoSweeps
from lambdas.adapters.aws.dynamodb.table import DynamoTable
from lambdas.adapters.aws.dynamodb.unavailable_offerings import DynamoOfferings
from lambdas.adapters.aws.scheduler import SchedulerWindows
from lambdas.adapters.aws.service import BRIEF, PATIENT, QUICK, AwsService
from lambdas.adapters.aws.sqs import SqsQueue
from lambdas.clock import SystemClock, pause
from lambdas.ports import CatalogueSource, CatalogueStore, Clock, CloudProvider, Kubernetes, Queue
from lambdas.settings import Settings
from lambdas.side_by_side import IN_THREADS, TaskRunners
from lambdas.store import SweepLog

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config

    from lambdas.adapters.aws.brakes.rows import DynamoBrakes
    from lambdas.brakes.brake_reader import Panel, Source
    from lambdas.controllers.batches.execution import Execution
    from lambdas.controllers.disruption.disruption import DisruptionController
    from lambdas.controllers.events.audit_log import AuditLog
    from lambdas.controllers.events.interruption import Interruptions
    from lambdas.controllers.launching.launching import Launcher
    from lambdas.controllers.maintenance.catalogue import CatalogueRefresh
    from lambdas.controllers.maintenance.reconciliation import Reconciliation
    from lambdas.controllers.node_lifecycle.claim_work import ClaimWork
    from lambdas.controllers.provisioning.provisioning import Provisioning
    from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding
    from lambdas.controllers.sweeps.sweep import Sweep
    from lambdas.ledger.writer import LedgerWriter
    from lambdas.observation.observer import Observer, Stores


class Application:
    """The controllers of one sandbox. Each is made when it is first asked for, so a function loads only what it uses.

    Args:
        kubernetes, catalogue_source, catalogues, pause, run_tasks: What embedders bring in place of the real thing.
    """

    def __init__(
        self,
        settings: Settings,
        session: boto3.Session,
        clock: Clock,
        *,
        kubernetes: Kubernetes | None = None,
        catalogue_source: CatalogueSource | None = None,
        catalogues: CatalogueStore | None = None,
        pause: Callable[[timedelta], None] = pause,
        run_tasks: TaskRunners = IN_THREADS,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._pause = pause
        self._run_tasks = run_tasks
        self._session = session
        self._given_kubernetes = kubernetes
        self._given_source = catalogue_source
        self._given_catalogues = catalogues

    @cached_property
    def audit_log(self) -> AuditLog:
        """For `watch_audit_log`."""
        from lambdas.controllers.events.audit_log import AuditLog

        return AuditLog(self._wake_ups, self.clock)

    @cached_property
    def provisioning(self) -> Provisioning:
        """For `provision`."""
        from lambdas.controllers.launching.launch_waves import LaunchWaves
        from lambdas.controllers.provisioning.lost_rows import LostRows
        from lambdas.controllers.provisioning.pending_work import PodBatcher
        from lambdas.controllers.provisioning.provisioning import Provisioning
        from lambdas.controllers.provisioning.unschedulable_events import UnschedulableEvents
        from lambdas.controllers.status.buffer_status import BufferStatus

        kubernetes, clock, settings, launcher = self._kubernetes, self.clock, self.settings, self._launcher
        news = (UnschedulableEvents(kubernetes, clock), BufferStatus(kubernetes, clock), self.ledger)
        waves = LaunchWaves(launcher, self._run_tasks.launches, clock, at_most=settings.launches_per_run)
        observer = self._observer.resolving(self._cloud.resolve)
        lost_rows = LostRows(self._cloud, observer, self._rebuilding, self._stores.claims, clock)
        looks = (observer, PodBatcher(observer, settings, clock, self._pause), lost_rows)
        queues, launching = (self._wake_ups, self._work), (launcher, waves)
        return Provisioning(looks, self._stores, self._leases, launching, queues, news, settings, clock)

    @cached_property
    def disruption(self) -> DisruptionController:
        """For `disrupt`."""
        from lambdas.controllers.disruption.disruption import DisruptionController
        from lambdas.controllers.resting.disruption_rest import DisruptionRest

        rest = DisruptionRest(self._kubernetes, self._stores.changes, self.clock, self._pause)
        return DisruptionController(self._observer, self._stores, rest, self._work, self.ledger, self.clock)

    @cached_property
    def execution(self) -> Execution:
        """For `execute`."""
        from lambdas.controllers.batches.binding.pod_binder import PodBinder
        from lambdas.controllers.batches.execution import Execution
        from lambdas.controllers.disruption.command_validator import CommandValidator
        from lambdas.controllers.disruption.command_work import CommandWork
        from lambdas.controllers.disruption.rollback import CommandRollback
        from lambdas.controllers.disruption.start import CommandStarter

        kubernetes, stores, claim_work, work = self._kubernetes, self._stores, self._claim_work, self._work
        validator = CommandValidator(self._observer, stores, self._leases, self.clock)
        start = CommandStarter(kubernetes, stores, self._leases, self._launcher, self._observer, work, self.clock)
        giving_up = CommandRollback(kubernetes, stores, claim_work, work, self.clock)
        commands = CommandWork(stores, validator, start, giving_up, claim_work, work, self.clock)
        tasks = self._run_tasks.messages
        binder = PodBinder(kubernetes, stores.claims, self._leases, self.settings, self.clock, tasks)
        return Execution(kubernetes, self._cloud, claim_work, commands, binder, work, self.clock, tasks)

    @cached_property
    def interruptions(self) -> Interruptions:
        """For `interrupt`."""
        from lambdas.brakes.brake_reader import Panel
        from lambdas.controllers.events.interruption import Interruptions

        # What happens to a node anyway waits for nothing but the kill switch, and an event for no other look-ups.
        stores = msgspec.structs.replace(self._stores, brakes=Panel(self._kill_switch, self.clock))
        queues = (self._wake_ups, self._work)
        return Interruptions(stores, self._claim_work, queues, self.settings, self.clock)

    @cached_property
    def reconciliation(self) -> Reconciliation:
        """For `reconcile`."""
        from lambdas.controllers.maintenance.reconciliation import Reconciliation
        from lambdas.controllers.resting.reconciliation_rest import ReconciliationRest

        rest = ReconciliationRest(self._stores)
        return Reconciliation(self._cloud, self._observer, rest, self._sweeps, self._sweep_log, self.clock)

    @cached_property
    def _sweeps(self) -> tuple[Sweep, ...]:
        """What `reconcile` puts right, in the order in which it is done in a round that begins with the first."""
        from lambdas.controllers.status.object_status import ObjectStatus
        from lambdas.controllers.sweeps.blocked_drains import BlockedDrains
        from lambdas.controllers.sweeps.budget_windows import BudgetWindowSchedules
        from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
        from lambdas.controllers.sweeps.deleted_pools import DeletedPools
        from lambdas.controllers.sweeps.expiry import Expiry
        from lambdas.controllers.sweeps.instances.impaired import ImpairedInstances
        from lambdas.controllers.sweeps.instances.indexing import InstanceIndex
        from lambdas.controllers.sweeps.instances.lost import LostInstances
        from lambdas.controllers.sweeps.instances.unknown import UnknownInstances
        from lambdas.controllers.sweeps.instances.untracked import UntrackedInstances
        from lambdas.controllers.sweeps.nodes.deleted import DeletedNodes
        from lambdas.controllers.sweeps.nodes.inconsistent import InconsistentNodes
        from lambdas.controllers.sweeps.nodes.late import LateNodes
        from lambdas.controllers.sweeps.nodes.stray import StrayNodes
        from lambdas.controllers.sweeps.nodes.stray_taints import StrayTaints
        from lambdas.controllers.sweeps.pod_events import PodEvents
        from lambdas.controllers.sweeps.requeue import Requeue
        from lambdas.controllers.sweeps.scheduled_changes import ScheduledChanges
        from lambdas.controllers.sweeps.stale_launch_templates import StaleLaunchTemplates
        from lambdas.controllers.sweeps.status import Statuses
        from lambdas.controllers.sweeps.usage import Usage

        kubernetes, cloud, stores, clock = self._kubernetes, self._cloud, self._stores, self.clock
        terminator = ClaimTerminator(stores.claims, self._claim_work, self._brakes, self._work, clock)
        unknown = UnknownInstances(
            self._rebuilding, stores.claims, (self._brakes, self._brake_rows), (self._wake_ups, self._work), clock
        )
        windows = (BudgetWindowSchedules(self._windows),) if self._windows is not None else ()
        return (
            UntrackedInstances(self._rebuilding, unknown, clock),
            LostInstances(cloud, terminator, clock),
            InstanceIndex(stores.claims),
            ImpairedInstances(cloud, terminator, clock),
            DeletedNodes(self._work, clock),
            StrayTaints(kubernetes, cloud, stores, clock),
            Requeue(stores, self._work, clock),
            Usage(stores.claims),
            LateNodes(),
            InconsistentNodes(self._work, clock),
            StrayNodes(kubernetes, cloud, clock),
            PodEvents(stores),
            Statuses(ObjectStatus(kubernetes, cloud, stores, clock)),
            Expiry(terminator, clock),
            ScheduledChanges(terminator, clock),
            DeletedPools(kubernetes, terminator),
            *windows,
            StaleLaunchTemplates(cloud),
            BlockedDrains(),
        )

    @cached_property
    def catalogue_refresh(self) -> CatalogueRefresh:
        """For `refresh_catalogue`."""
        from lambdas.controllers.maintenance.catalogue import CatalogueRefresh

        return CatalogueRefresh(self._source, self.catalogues)

    @cached_property
    def ledger(self) -> LedgerWriter:
        """Keeps what is decided."""
        from core.ledger.object_keys import PREFIX
        from lambdas.adapters.aws.s3_objects import S3Objects
        from lambdas.ledger.writer import LedgerWriter

        objects = S3Objects(self._service("s3", BRIEF), self.settings.bucket_name, PREFIX)
        return LedgerWriter(objects if self.settings.keep_ledger else None, self.settings.cluster_name, self.clock)

    @cached_property
    def _observer(self) -> Observer:
        from lambdas.observation.observer import Observer

        return Observer(self._kubernetes, self.catalogues, self._stores, self.settings, self.clock)

    @cached_property
    def _stores(self) -> Stores:
        from lambdas.adapters.aws.dynamodb.moves import DynamoMoves
        from lambdas.observation.observer import Stores

        cluster = self.settings.cluster_name
        return Stores(
            claims=DynamoClaims(self._table, cluster),
            commands=DynamoCommands(self._table, cluster),
            unavailable=DynamoOfferings(self._table),
            denials=DynamoDenials(self._table, cluster),
            nominations=DynamoNominations(self._table, cluster),
            changes=DynamoChanges(self._table, cluster),
            moves=DynamoMoves(self._table, cluster),
            brakes=self._brakes,
            breakers=self._brake_rows,
        )

    @cached_property
    def _brakes(self) -> Panel:
        """Every brake that this installation has."""
        from lambdas.adapters.aws.brakes.alarms import PausingAlarms
        from lambdas.adapters.aws.brakes.zonal_shift import ZonalShifts
        from lambdas.brakes.brake_reader import Panel, Source

        settings, sources = self.settings, list[Source]((*self._kill_switch, self._brake_rows))
        if settings.pausing_alarms:
            sources.append(PausingAlarms(self._service("cloudwatch", BRIEF), settings.pausing_alarms.splitlines()))
        if settings.zonal_shift_cluster_arn:
            sources.append(ZonalShifts(self._service("arc-zonal-shift", BRIEF), settings.zonal_shift_cluster_arn))
        return Panel(sources, self.clock)

    @cached_property
    def _kill_switch(self) -> tuple[Source, ...]:
        from lambdas.adapters.aws.brakes.parameter import KillSwitch

        parameter = self.settings.kill_switch_parameter
        return (KillSwitch(self._service("ssm", BRIEF), parameter),) if parameter else ()

    @cached_property
    def _brake_rows(self) -> DynamoBrakes:
        """The brakes that functions engage themselves, and the breakers of NodePools."""
        from lambdas.adapters.aws.brakes.rows import DynamoBrakes

        return DynamoBrakes(self._table, self.settings.cluster_name, self.clock)

    @cached_property
    def _leases(self) -> DynamoLeases:
        return DynamoLeases(self._table, self.settings.cluster_name)

    @cached_property
    def _sweep_log(self) -> SweepLog:
        return DynamoSweeps(self._table, self.settings.cluster_name)

    @cached_property
    def _launcher(self) -> Launcher:
        from lambdas.controllers.launching.launching import Launcher

        return Launcher(self._cloud, self._stores, cluster=self.settings.cluster_name)

    @cached_property
    def _rebuilding(self) -> Rebuilding:
        from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding

        return Rebuilding(self._cloud, self._launcher, self._stores.claims, self._observer, self._work, self.clock)

    @cached_property
    def _claim_work(self) -> ClaimWork:
        from lambdas.controllers.node_lifecycle.claim_work import ClaimWork

        kubernetes, stores, launcher = self._kubernetes, self._stores, self._launcher
        observer, settings, wake_ups = self._observer, self.settings, self._wake_ups
        return ClaimWork(kubernetes, self._cloud, stores, launcher, observer, settings, wake_ups, self.clock)

    @cached_property
    def _table(self) -> DynamoTable:
        return DynamoTable(self._session.client("dynamodb", config=QUICK), self.settings.table_name, self._pause)

    @cached_property
    def _wake_ups(self) -> Queue:
        return SqsQueue(self._sqs, self.settings.wake_up_queue_url)

    @cached_property
    def _work(self) -> Queue:
        return SqsQueue(self._sqs, self.settings.work_queue_url)

    @cached_property
    def _sqs(self) -> object:
        return self._session.client("sqs", config=QUICK)

    @cached_property
    def _windows(self) -> SchedulerWindows | None:
        if not self.settings.disrupt_function_arn:
            return None
        return SchedulerWindows(
            self._session.client("scheduler", config=PATIENT),
            group=self.settings.schedule_group,
            role_arn=self.settings.schedule_role_arn,
            target_arn=self.settings.disrupt_function_arn,
        )

    @cached_property
    def _cloud(self) -> CloudProvider:
        from lambdas.adapters.aws.ec2.cloud_provider import AwsServices, Ec2Cloud

        ec2, ssm, iam, eks = map(self._service, ("ec2", "ssm", "iam", "eks"))
        services = AwsServices(ec2=ec2, ssm=ssm, iam=iam, eks=eks, region=self._session.region_name)
        return Ec2Cloud(services, cluster=self.settings.cluster_name, clock=self.clock)

    @cached_property
    def catalogues(self) -> CatalogueStore:
        """The market as last read; embedders may share one among applications."""
        from lambdas.adapters.aws.s3_catalogue import S3CatalogueStore

        if self._given_catalogues is not None:
            return self._given_catalogues
        return S3CatalogueStore(self._service("s3"), self.settings.bucket_name, self.settings.sizing())

    @cached_property
    def _source(self) -> CatalogueSource:
        from lambdas.adapters.aws.market import AwsMarket, pricing_region

        if self._given_source is not None:
            return self._given_source
        region = self._session.region_name
        pricing = self._service("pricing", region_name=pricing_region(region))
        return AwsMarket(self._service("ec2"), pricing, region=region, clock=self.clock)

    @cached_property
    def _kubernetes(self) -> Kubernetes:
        if self._given_kubernetes is not None:
            return self._given_kubernetes
        from lambdas.adapters.kube.connect import kubernetes_of

        return kubernetes_of(self._session, self.settings.cluster_name, self.clock)

    def _service(self, name: str, config: Config = PATIENT, **more: str) -> AwsService:
        return AwsService(make=lambda: self._session.client(name, config=config, **more))


class _Sandbox:
    """What this process holds on to: one application, and how to make it."""

    factory: Callable[[], Application] | None = None
    current: Application | None = None


def use(factory: Callable[[], Application]) -> None:
    """Let `application` ask `factory` from now on, whatever was there before: for those who embed the functions."""
    _Sandbox.factory = factory
    _Sandbox.current = None


def application() -> Application:
    """The application of this sandbox, made from the environment at the first call.

    Raises:
        InvalidInputError: If a setting is missing or not understood.
    """
    if _Sandbox.current is None:
        _Sandbox.current = (_Sandbox.factory or _from_environment)()
    return _Sandbox.current


def _from_environment() -> Application:
    import boto3

    return Application(Settings.from_environment(os.environ), boto3.Session(), SystemClock())
