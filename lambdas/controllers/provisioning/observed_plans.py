"""Records what would be launched while launches are only observed."""

from __future__ import annotations

from collections.abc import Collection

from adapters.ledger.writer import LedgerWriter
from adapters.observation.plan_cache import snapshot_digest
from adapters.run_report import RunReport
from core.disruption.static_capacity.replicas import static_claims
from core.ledger.entry import PROVISION
from core.ledger.summary import observed, of_provisioning
from core.model.snapshot import Snapshot
from core.pools.observed_pools import as_acting, observed_pools
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from lambdas.controllers.provisioning.plan_decision import PlanDecision


class ObservedPlans:
    """The recorded plans of one sandbox, which are not carried out; each state of the cluster is planned once."""

    def __init__(self, decision: PlanDecision, ledger: LedgerWriter) -> None:
        self._decision = decision
        self._ledger = ledger
        self._planned = ""
        self._last_recorded = ""

    def observe(self, snapshot: Snapshot, report: RunReport) -> None:
        """Plan as if observed NodePools were not, and record their launches once. Never raises PortError."""
        pools = observed_pools(snapshot)
        if pools:
            self.record(as_acting(snapshot), report, pools=pools)

    def record(self, snapshot: Snapshot, report: RunReport, *, pools: Collection[str] | None = None) -> None:
        """Plan for this snapshot, and record the plan.

        Args:
            snapshot: The input of the plan.
            report: Collects the decisions.
            pools: Only launches for these are recorded, and only plans with any; None: all launches, and a plan for each new
                snapshot.
        """
        digest = snapshot_digest(snapshot)
        if digest == self._planned:
            return
        self._planned = digest
        plan, bound = self._decision.improved(snapshot, report)
        every = (*plan.claims, *static_claims(snapshot, plan.claims))
        claims = [claim for claim in every if pools is None or claim.node_pool in pools]
        bindings = () if pools is not None else ((found.pod, found.node) for found in plan.bindings)
        refused = () if pools is not None else ((found.pod, found.reason) for found in plan.unschedulable)
        summary = observed(of_provisioning(claims, bindings, refused))
        is_new, self._last_recorded = summary.what != self._last_recorded, summary.what
        if pools is not None and not (claims and is_new):
            return
        draft = self._ledger.draft(PROVISION, snapshot, plan, bound, is_observed=True)
        report.decision_id = report.decision_id or draft.id
        for claim in claims if is_new else ():
            message = f"would launch {claim.instance_types[0]} for {len(claim.pods)} pods ({draft.id or 'no ledger'})"
            report.decide(DecisionKind.OBSERVE, claim.node_pool, ClaimReason.OBSERVED, message)
        if not self._ledger.try_write(draft, summary, report):
            self._planned = ""
