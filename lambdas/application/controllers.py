"""Assembles the controllers of one sandbox from its adapters."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from adapters.composition.functions import Adapters
from lambdas.application.shared_controllers import SharedControllers

if TYPE_CHECKING:
    from lambdas.cluster_parts import PartDecisions
    from lambdas.controllers.audit_log import AuditLog
    from lambdas.controllers.disruption import DisruptionController, ShadowDisruption
    from lambdas.controllers.execution import Execution
    from lambdas.controllers.forecast import ForecastRuns
    from lambdas.controllers.interruption import Interruptions
    from lambdas.controllers.planning import ShadowProvisioning
    from lambdas.controllers.provisioning import Provisioning
    from lambdas.controllers.reconciliation import Reconciliation
    from lambdas.controllers.refresh import CatalogueRefresh, QuotaRefresh
    from lambdas.controllers.sweeps.sweep import Sweep


class Application:
    """The controllers of a sandbox. Each is created on first use, so a function loads only what it needs."""

    def __init__(self, adapters: Adapters) -> None:
        self.adapters = adapters
        self.shared = SharedControllers(adapters)

    @cached_property
    def audit_log(self) -> AuditLog:
        """Controller of `watch_audit_log`."""
        from lambdas.controllers.audit_log import AuditLog

        return AuditLog(self.adapters.queues, self.adapters.pod_ends, self.adapters.clock)

    @cached_property
    def provisioning(self) -> Provisioning:
        """Controller of `provision`."""
        from lambdas.application.provisioning import provisioning

        return provisioning(self.shared)

    @cached_property
    def disruption(self) -> DisruptionController:
        """Controller of `disrupt`."""
        from lambdas.application.disruption import disruption

        return disruption(self.shared)

    @cached_property
    def part_decisions(self) -> PartDecisions:
        """Controller of `decide_part`."""
        from lambdas.cluster_parts import PartDecisions, PartsStore

        store = PartsStore(self.adapters.part_objects, self.adapters.settings.cluster_name)
        return PartDecisions(store, self.adapters.clock)

    @cached_property
    def forecast(self) -> ForecastRuns:
        """The other controller of `disrupt`."""
        from lambdas.controllers.forecast import ForecastRuns

        adapters = self.adapters
        return ForecastRuns(
            observer=self.shared.observer,
            recorded=adapters.recorded,
            store=adapters.stores.forecasts,
            ledger=adapters.ledger,
            kubernetes=adapters.kubernetes,
            settings=adapters.settings,
            clock=adapters.clock,
        )

    @cached_property
    def shadow_provisioning(self) -> ShadowProvisioning:
        """Controller of `provision` with `mode: shadow`."""
        from lambdas.controllers.planning import ObservedPlans, PlanDecision, ShadowProvisioning

        adapters = self.adapters
        decision = PlanDecision(self.shared.observer, adapters.ledger, adapters.settings, adapters.clock)
        plans = ObservedPlans(decision, adapters.ledger)
        return ShadowProvisioning(
            self.shared.observer, plans, adapters.queues.wake_ups, adapters.settings, adapters.clock
        )

    @cached_property
    def shadow_disruption(self) -> ShadowDisruption:
        """Controller of `disrupt` with `mode: shadow`."""
        from lambdas.controllers.disruption import ObservedCommands, ShadowDisruption

        return ShadowDisruption(self.shared.observer, ObservedCommands(self.adapters.ledger, self.adapters.clock))

    @cached_property
    def execution(self) -> Execution:
        """Controller of `execute`."""
        from lambdas.application.execution import execution

        return execution(self.shared)

    @cached_property
    def interruptions(self) -> Interruptions:
        """Controller of `interrupt`."""
        from adapters.brakes import Panel
        from lambdas.controllers.interruption import Interruptions

        # Only the kill switch delays involuntary changes of a node, and an event needs no further reads.
        adapters = self.adapters
        stores = msgspec.structs.replace(adapters.stores, brakes=Panel(adapters.kill_switch, adapters.clock))
        return Interruptions(
            stores, adapters.cloud, self.shared.claim_deletion, adapters.queues, adapters.settings, adapters.clock
        )

    @cached_property
    def reconciliation(self) -> Reconciliation:
        """Controller of `reconcile`."""
        from lambdas.controllers.events import ObjectWarnings
        from lambdas.controllers.reconciliation import ObservedPoolBrakes, Reconciliation, ReconciliationResync

        adapters = self.adapters
        resync = ReconciliationResync(adapters.stores)
        pools = ObservedPoolBrakes(adapters.brakes, adapters.brake_rows, adapters.clock)
        return Reconciliation(
            cloud=adapters.cloud,
            observer=self.shared.observer,
            resync=resync,
            observed_pools=pools,
            sweeps=self.sweeps,
            log=adapters.sweep_log,
            unreadable=adapters.stores.unreadable,
            warnings=ObjectWarnings(adapters.kubernetes, adapters.clock),
            clock=adapters.clock,
        )

    @cached_property
    def sweeps(self) -> tuple[Sweep, ...]:
        """Sweeps of `reconcile`."""
        from lambdas.application.sweeps import sweeps

        return sweeps(self.shared)

    @cached_property
    def catalogue_refresh(self) -> CatalogueRefresh:
        """Controller of `refresh_catalogue`."""
        from lambdas.controllers.refresh import CatalogueRefresh

        return CatalogueRefresh(self.adapters.catalogue_source, self.adapters.catalogues, self.adapters.clock)

    @cached_property
    def quota_refresh(self) -> QuotaRefresh:
        """The other controller of `refresh_catalogue`."""
        from lambdas.controllers.refresh import QuotaRefresh

        return QuotaRefresh(self.adapters.quota_source, self.adapters.quotas)
