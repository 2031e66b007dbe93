"""Creates the adapters behind the ports of one sandbox: the only place where the two meet."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from adapters.aws.services import BRIEF, LAUNCHING, PATIENT, QUICK, AwsService, StepFunctionsMachine
from adapters.aws.session import EnvironmentSession, SqsQueue
from adapters.observability import MISSING_PERMISSIONS
from adapters.ports import (
    CatalogueSource,
    CatalogueStore,
    Clock,
    CloudProvider,
    FunctionQueues,
    JsonObject,
    Kubernetes,
    NotFoundError,
    QuotaSource,
    QuotaStore,
    Session,
    StateMachine,
    Topic,
)
from adapters.runtime import IN_THREADS, TaskRunners, pause
from adapters.store import ProposalStore, SweepLog, Targets
from core.api.objects import name_of
from installation.settings import Settings
from installation.wiring import PARTS_PREFIX

if TYPE_CHECKING:
    from botocore.config import Config

    from adapters.aws.brakes import DynamoBrakes
    from adapters.aws.dynamodb.coordination import DynamoLeases, DynamoPodEnds
    from adapters.aws.dynamodb.launch_memory import DynamoTemplateNames
    from adapters.aws.dynamodb.table import DynamoTable
    from adapters.aws.ec2.fleet import PacedTurns
    from adapters.aws.market import S3Objects
    from adapters.aws.session import SchedulerWindows
    from adapters.brakes import Panel, Source
    from adapters.ledger import LedgerWriter, RecordedSnapshots
    from adapters.observation.stores import Stores
    from adapters.store import ObservedClaims
    from core.model.catalogue import InstanceType
    from core.price_terms import TermPrices


# Creates the adapters that keep their rows in DynamoDB.


class TableAdapters:
    """Adapters of the cluster's own table, and of the one that the clusters of an account and region share.

    Args:
        settings: The deployment's settings.
        session: The AWS session: credentials and region.
        clock: The source of time.
        pause: Waits between attempts.
    """

    def __init__(
        self, settings: Settings, session: Session, clock: Clock, *, pause: Callable[[timedelta], None]
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.pause = pause
        self._session = session

    @cached_property
    def table(self) -> DynamoTable:
        """The table; subclasses for readers override it, and an installation that only observes has none."""
        if self.settings.is_shadow:
            from adapters.aws.dynamodb.table import EmptyTable

            return EmptyTable()
        from adapters.aws.dynamodb.table import DynamoTable

        return DynamoTable(self._session.client("dynamodb", config=QUICK), self.settings.table_name, self.pause)

    @cached_property
    def shared_table(self) -> DynamoTable:
        """The table that all clusters of the account and region share; the cluster's own without a shared one."""
        shared = self.settings.shared_table_name
        return self.table.named(shared) if shared else self.table

    @cached_property
    def claims(self) -> ObservedClaims:
        """The claims; subclasses report each change to their mirror."""
        from adapters.aws.dynamodb.claims import DynamoClaims
        from adapters.store import ObservedClaims

        return ObservedClaims(DynamoClaims(self.table, self.settings.cluster_name))

    @cached_property
    def pod_ends(self) -> DynamoPodEnds:
        """When pods last ended on each node."""
        from adapters.aws.dynamodb.coordination import DynamoPodEnds

        return DynamoPodEnds(self.table, self.settings.cluster_name)

    @cached_property
    def targets(self) -> Targets:
        """The current target of the fleet."""
        from adapters.aws.dynamodb.commands import DynamoTargets

        return DynamoTargets(self.table, self.settings.cluster_name)

    @cached_property
    def proposals(self) -> ProposalStore:
        """Commands that wait for approval."""
        from adapters.aws.dynamodb.commands import DynamoProposals

        return DynamoProposals(self.table, self.settings.cluster_name)

    @cached_property
    def brake_rows(self) -> DynamoBrakes:
        """The brakes that functions engage themselves, and the breakers of NodePools."""
        from adapters.aws.brakes import DynamoBrakes

        return DynamoBrakes(self.table, self.settings.cluster_name, self.clock)

    @cached_property
    def leases(self) -> DynamoLeases:
        """Leases for planning, and for starting commands."""
        from adapters.aws.dynamodb.coordination import DynamoLeases

        return DynamoLeases(self.table, self.settings.cluster_name)

    @cached_property
    def sweep_log(self) -> SweepLog:
        """The last completion of each sweep of `reconcile`."""
        from adapters.aws.dynamodb.coordination import DynamoSweeps

        return DynamoSweeps(self.table, self.settings.cluster_name)

    @property
    def turns(self) -> PacedTurns:
        """Turns at the paces that all clusters of the account and region share."""
        from adapters.aws.dynamodb.launch_memory import DynamoRequestPace
        from adapters.aws.ec2.fleet import PacedTurns
        from core.launch.selection import of_instances

        settings, table = self.settings, self.shared_table
        launched = of_instances(settings.launch_tokens, settings.launch_tokens_per_second)
        terminated = of_instances(settings.termination_tokens, settings.termination_tokens_per_second)
        return PacedTurns(
            DynamoRequestPace(table, "ec2:CreateFleet"),
            DynamoRequestPace(table, "ec2:CreateFleet instances", launched),
            DynamoRequestPace(table, "ec2:TerminateInstances instances", terminated),
            self.clock,
            self.pause,
        )

    @cached_property
    def template_names(self) -> DynamoTemplateNames:
        """The launch templates that exist, as far as this cluster's functions know."""
        from adapters.aws.dynamodb.launch_memory import DynamoTemplateNames

        return DynamoTemplateNames(self.table, self.settings.cluster_name)


# Creates the adapters of the market: instance types, offerings, prices and quotas, which clusters of a region share.


class MarketAdapters(TableAdapters):
    """The adapters that read the market, and those that store the last reading; `Adapters` adds the others."""

    @property
    def region(self) -> str:
        """The region of the session."""
        return str(self._session.region_name)

    def _types_for(self, node_class: JsonObject) -> tuple[InstanceType, ...]:
        """Return the types as sized for a resolved EC2NodeClass; none before the first reading of the market."""
        try:
            return self.catalogues.catalogue([node_class]).types_for(name_of(node_class))
        except NotFoundError:
            return ()

    @cached_property
    def catalogues(self) -> CatalogueStore:
        """The last reading of the market; embedders may share one among several applications."""
        from adapters.aws.market import S3CatalogueStore

        bucket = self.settings.shared_bucket_name or self.settings.bucket_name
        return S3CatalogueStore(self._service("s3"), bucket, self.settings.sizing(), self._term_prices())

    def _term_prices(self) -> TermPrices | None:
        terms = self.settings.terms()
        if terms is None:
            return None
        from core.price_terms import TermPrices

        return TermPrices(terms)

    @cached_property
    def catalogue_source(self) -> CatalogueSource:
        """Reads the current market from AWS."""
        from adapters.aws.market import AwsMarket, pricing_region

        region = self._session.region_name
        pricing = self._service("pricing", region_name=pricing_region(region))
        author = self.settings.cluster_name
        return AwsMarket(self._service("ec2"), pricing, region=region, clock=self.clock, author=author)

    @cached_property
    def quota_source(self) -> QuotaSource:
        """Reads the current quotas from AWS."""
        from adapters.aws.quotas import AwsQuotas

        return AwsQuotas(self._service("service-quotas"), self._service("ec2"), clock=self.clock)

    @cached_property
    def quotas(self) -> QuotaStore:
        """The last reading of the quotas, shared by the clusters of the account and region."""
        from adapters.aws.quotas import S3QuotaStore

        return S3QuotaStore(self._service("s3"), self.settings.shared_bucket_name or self.settings.bucket_name)

    def _service(self, name: str, config: Config = PATIENT, **more: str) -> AwsService:
        return AwsService(make=lambda: self._session.client(name, config=config, **more))


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
        from adapters.aws.dynamodb.commands import DynamoCommands, DynamoMoves, DynamoNominations
        from adapters.aws.dynamodb.coordination import DynamoChanges, DynamoForecasts
        from adapters.aws.dynamodb.launch_memory import DynamoDenials, DynamoOfferings
        from adapters.aws.dynamodb.table import DynamoUnreadableRows
        from adapters.observation.stores import Stores

        cluster = self.settings.cluster_name
        return Stores(
            claims=self.claims,
            commands=DynamoCommands(self.table, cluster),
            unavailable=DynamoOfferings(self.shared_table, cluster),
            denials=DynamoDenials(self.table, cluster),
            nominations=DynamoNominations(self.table, cluster),
            changes=DynamoChanges(self.table, cluster),
            pod_ends=self.pod_ends,
            moves=DynamoMoves(self.table, cluster),
            brakes=self.brakes,
            breakers=self.brake_rows,
            quotas=self.quotas,
            unreadable=DynamoUnreadableRows([self.table, self.shared_table]),
            forecasts=DynamoForecasts(self.table, cluster),
        )

    @cached_property
    def approval_topic(self) -> Topic | None:
        """The topic for announcements of proposals; None if no topic is configured."""
        return self._topic(self.settings.approval_topic_arn)

    @cached_property
    def command_topic(self) -> Topic | None:
        """The topic for announcements of stored commands; None if no topic is configured."""
        return self._topic(self.settings.command_topic_arn)

    def _topic(self, arn: str) -> Topic | None:
        from adapters.aws.services import SnsTopic

        return SnsTopic(self._service("sns", BRIEF), arn) if arn else None

    @cached_property
    def brakes(self) -> Panel:
        """Every brake that this installation has."""
        from adapters.aws.brakes import PausingAlarms, ZonalShifts
        from adapters.brakes import Panel, Source

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
        from adapters.aws.brakes import KillSwitch

        parameter = self.settings.kill_switch_parameter
        return (KillSwitch(self._service("ssm", BRIEF), parameter),) if parameter else ()

    @cached_property
    def windows(self) -> SchedulerWindows | None:
        """EventBridge schedules for budget windows; None if `disrupt` is deployed without them."""
        if not self.settings.disrupt_function_arn:
            return None
        from adapters.aws.session import SchedulerWindows

        return SchedulerWindows(
            self._session.client("scheduler", config=PATIENT),
            group=self.settings.schedule_group,
            role_arn=self.settings.schedule_role_arn,
            target_arn=self.settings.disrupt_function_arn,
        )

    @cached_property
    def cloud(self) -> CloudProvider:
        """EC2 and the other services that a launch needs."""
        from adapters.aws.ec2.fleet import AwsServices, Ec2Cloud

        services = AwsServices(
            ec2=self._service("ec2"),
            ssm=self._service("ssm"),
            iam=self._service("iam"),
            eks=self._service("eks"),
            region=self._session.region_name,
            launching=self._service("ec2", LAUNCHING),
        )
        gates = self.settings.options().feature_gates
        return Ec2Cloud(
            services,
            cluster=self.settings.cluster_name,
            clock=self.clock,
            uses_reservations=gates.reserved_capacity,
            turns=self.turns,
            template_names=self.template_names,
            types_for=self._types_for,
            validates_launches=self.settings.validate_launches,
        )

    @cached_property
    def kubernetes(self) -> Kubernetes:
        """Client of the API server."""
        from adapters.composition.cluster_api import kubernetes_of

        return kubernetes_of(self._session, self.settings.cluster_name, self.clock)

    @cached_property
    def ledger(self) -> LedgerWriter:
        """Storage for decisions."""
        from adapters.ledger import LedgerWriter

        objects = self._ledger_objects() if self.settings.keep_ledger else None
        return LedgerWriter(objects, self.settings.cluster_name, self.clock)

    @cached_property
    def part_objects(self) -> S3Objects:
        """The bucket's objects about clusters that are decided about in parts."""
        from adapters.aws.market import S3Objects

        return S3Objects(self._service("s3"), self.settings.bucket_name, PARTS_PREFIX)

    @cached_property
    def parts_machine(self) -> StateMachine | None:
        """The state machine that has functions decide about parts; None if none is deployed."""
        arn = self.settings.parts_machine_arn
        return StepFunctionsMachine(self._service("stepfunctions"), arn) if arn else None

    @cached_property
    def recorded(self) -> RecordedSnapshots:
        """The snapshots of stored decisions."""
        from adapters.ledger import RecordedSnapshots

        return RecordedSnapshots(self._ledger_objects(), self.settings.cluster_name, self.clock)

    def _ledger_objects(self) -> S3Objects:
        from adapters.aws.market import S3Objects
        from core.ledger.reading import PREFIX

        return S3Objects(self._service("s3", BRIEF), self.settings.bucket_name, PREFIX)
