"""Creates the adapters behind the ports of one sandbox: the only place where the two meet."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from adapters.aws.service import BRIEF, PATIENT, QUICK
from adapters.aws.session import EnvironmentSession
from adapters.aws.sqs import SqsQueue
from adapters.composition.market_adapters import MarketAdapters
from adapters.ports import (
    CatalogueSource,
    CatalogueStore,
    Clock,
    CloudProvider,
    FunctionQueues,
    Kubernetes,
    Session,
    Topic,
)
from adapters.runtime.clock import pause
from adapters.runtime.parallel_tasks import IN_THREADS, TaskRunners
from adapters.runtime.refused_calls import MISSING_PERMISSIONS
from installation.settings import Settings

if TYPE_CHECKING:
    from adapters.aws.scheduler import SchedulerWindows
    from adapters.brakes.brake_reader import Panel, Source
    from adapters.ledger.writer import LedgerWriter
    from adapters.observation.stores import Stores


def session_of_environment() -> Session:
    """Return a session with the credentials and the region of the process."""
    return EnvironmentSession()


class Adapters(MarketAdapters):
    """The adapters of a sandbox. Each is created on first use, so a function loads only what it needs, and then kept.

    Args:
        settings: The deployment's settings.
        session: The AWS session: credentials and region.
        clock: The source of time.
        kubernetes, catalogue_source, catalogues, pause, run_tasks: Replacements provided by embedders.
    """

    def __init__(
        self,
        settings: Settings,
        session: Session,
        clock: Clock,
        *,
        kubernetes: Kubernetes | None = None,
        catalogue_source: CatalogueSource | None = None,
        catalogues: CatalogueStore | None = None,
        pause: Callable[[timedelta], None] = pause,
        run_tasks: TaskRunners = IN_THREADS,
    ) -> None:
        super().__init__(settings, session, clock, pause=pause)
        self.run_tasks = run_tasks
        if kubernetes is not None:
            self.kubernetes = kubernetes
        if catalogue_source is not None:
            self.catalogue_source = catalogue_source
        if catalogues is not None:
            self.catalogues = catalogues

    @cached_property
    def queues(self) -> FunctionQueues:
        """The queues that wake `provision`, `execute` and `disrupt`."""
        sqs = self._session.client("sqs", config=QUICK)
        return FunctionQueues(
            wake_ups=SqsQueue(sqs, self.settings.wake_up_queue_url),
            work=SqsQueue(sqs, self.settings.work_queue_url),
            run_requests=SqsQueue(sqs, self.settings.look_queue_url),
        )

    @cached_property
    def stores(self) -> Stores:
        """Every store of the table that an observation reads."""
        from adapters.aws.dynamodb.commands import DynamoCommands
        from adapters.aws.dynamodb.coordination.changes import DynamoChanges
        from adapters.aws.dynamodb.denials import DynamoDenials
        from adapters.aws.dynamodb.pods.moves import DynamoMoves
        from adapters.aws.dynamodb.pods.nominations import DynamoNominations
        from adapters.aws.dynamodb.readable_rows import DynamoUnreadableRows
        from adapters.aws.dynamodb.unavailable_offerings import DynamoOfferings
        from adapters.observation.stores import Stores

        cluster = self.settings.cluster_name
        return Stores(
            claims=self.claims,
            commands=DynamoCommands(self.table, cluster),
            unavailable=DynamoOfferings(self.shared_table),
            denials=DynamoDenials(self.table, cluster),
            nominations=DynamoNominations(self.table, cluster),
            changes=DynamoChanges(self.table, cluster),
            pod_ends=self.pod_ends,
            moves=DynamoMoves(self.table, cluster),
            brakes=self.brakes,
            breakers=self.brake_rows,
            quotas=self.quotas,
            unreadable=DynamoUnreadableRows([self.table, self.shared_table]),
        )

    @cached_property
    def approval_topic(self) -> Topic | None:
        """The topic for announcements of proposals; None if no topic is configured."""
        from adapters.aws.sns import SnsTopic

        arn = self.settings.approval_topic_arn
        return SnsTopic(self._service("sns", BRIEF), arn) if arn else None

    @cached_property
    def brakes(self) -> Panel:
        """Every brake that this installation has."""
        from adapters.aws.brakes.alarms import PausingAlarms
        from adapters.aws.brakes.zonal_shift import ZonalShifts
        from adapters.brakes.brake_reader import Panel, Source

        if self.settings.is_shadow:  # an installation that only observes starts nothing that a brake could stop
            return Panel((), self.clock)
        settings, sources = self.settings, list[Source]((*self.kill_switch, self.brake_rows))
        if settings.pausing_alarms:
            sources.append(PausingAlarms(self._service("cloudwatch", BRIEF), settings.pausing_alarms.splitlines()))
        if settings.zonal_shift_cluster_arn:
            sources.append(ZonalShifts(self._service("arc-zonal-shift", BRIEF), settings.zonal_shift_cluster_arn))
        # A brake that cannot be read is the cause of an alarm.
        return Panel(sources, self.clock, MISSING_PERMISSIONS.leave_out)

    @cached_property
    def kill_switch(self) -> tuple[Source, ...]:
        """The kill switch, with which a person stops everything."""
        from adapters.aws.brakes.parameter import KillSwitch

        parameter = self.settings.kill_switch_parameter
        return (KillSwitch(self._service("ssm", BRIEF), parameter),) if parameter else ()

    @cached_property
    def windows(self) -> SchedulerWindows | None:
        """EventBridge schedules for budget windows; None if `disrupt` is deployed without them."""
        if not self.settings.disrupt_function_arn:
            return None
        from adapters.aws.scheduler import SchedulerWindows

        return SchedulerWindows(
            self._session.client("scheduler", config=PATIENT),
            group=self.settings.schedule_group,
            role_arn=self.settings.schedule_role_arn,
            target_arn=self.settings.disrupt_function_arn,
        )

    @cached_property
    def cloud(self) -> CloudProvider:
        """EC2 and the other services that a launch needs."""
        from adapters.aws.ec2.cloud_provider import AwsServices, Ec2Cloud
        from adapters.aws.ec2.launch_turns import PacedTurns

        services = AwsServices(
            ec2=self._service("ec2"),
            ssm=self._service("ssm"),
            iam=self._service("iam"),
            eks=self._service("eks"),
            region=self._session.region_name,
        )
        gates = self.settings.options().feature_gates
        return Ec2Cloud(
            services,
            cluster=self.settings.cluster_name,
            clock=self.clock,
            uses_reservations=gates.reserved_capacity,
            turns=PacedTurns(self.launch_pace, self.clock, self.pause),
            types_for=self._types_for,
        )

    @cached_property
    def kubernetes(self) -> Kubernetes:
        """Client of the API server."""
        from adapters.composition.cluster_api import kubernetes_of

        return kubernetes_of(self._session, self.settings.cluster_name, self.clock)

    @cached_property
    def ledger(self) -> LedgerWriter:
        """Storage for decisions."""
        from adapters.aws.s3_objects import S3Objects
        from adapters.ledger.writer import LedgerWriter
        from core.ledger.object_keys import PREFIX

        objects = S3Objects(self._service("s3", BRIEF), self.settings.bucket_name, PREFIX)
        return LedgerWriter(objects if self.settings.keep_ledger else None, self.settings.cluster_name, self.clock)
