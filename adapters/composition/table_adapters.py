"""Creates the adapters that keep their rows in DynamoDB."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from adapters.aws.service import QUICK
from adapters.ports import Clock, Session
from adapters.store import ProposalStore, SweepLog, Targets
from installation.settings import Settings

if TYPE_CHECKING:
    from adapters.aws.brakes.rows import DynamoBrakes
    from adapters.aws.dynamodb.coordination.leases import DynamoLeases
    from adapters.aws.dynamodb.pods.pod_ends import DynamoPodEnds
    from adapters.aws.dynamodb.request_pace import DynamoRequestPace
    from adapters.aws.dynamodb.table import DynamoTable
    from adapters.store.observed_claims import ObservedClaims


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
            from adapters.aws.read_only_table import EmptyTable

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
        from adapters.store.observed_claims import ObservedClaims

        return ObservedClaims(DynamoClaims(self.table, self.settings.cluster_name))

    @cached_property
    def pod_ends(self) -> DynamoPodEnds:
        """When pods last ended on each node."""
        from adapters.aws.dynamodb.pods.pod_ends import DynamoPodEnds

        return DynamoPodEnds(self.table, self.settings.cluster_name)

    @cached_property
    def targets(self) -> Targets:
        """The current target of the fleet."""
        from adapters.aws.dynamodb.targets import DynamoTargets

        return DynamoTargets(self.table, self.settings.cluster_name)

    @cached_property
    def proposals(self) -> ProposalStore:
        """Commands that wait for approval."""
        from adapters.aws.dynamodb.proposals import DynamoProposals

        return DynamoProposals(self.table, self.settings.cluster_name)

    @cached_property
    def brake_rows(self) -> DynamoBrakes:
        """The brakes that functions engage themselves, and the breakers of NodePools."""
        from adapters.aws.brakes.rows import DynamoBrakes

        return DynamoBrakes(self.table, self.settings.cluster_name, self.clock)

    @cached_property
    def leases(self) -> DynamoLeases:
        """Leases for planning, and for starting commands."""
        from adapters.aws.dynamodb.coordination.leases import DynamoLeases

        return DynamoLeases(self.table, self.settings.cluster_name)

    @cached_property
    def sweep_log(self) -> SweepLog:
        """Log of which sweeps of `reconcile` completed, and when."""
        from adapters.aws.dynamodb.coordination.sweeps import DynamoSweeps

        return DynamoSweeps(self.table, self.settings.cluster_name)

    @cached_property
    def launch_pace(self) -> DynamoRequestPace:
        """The pace of launches that all clusters of the account and region share."""
        from adapters.aws.dynamodb.request_pace import DynamoRequestPace

        return DynamoRequestPace(self.shared_table, "ec2:CreateFleet")
