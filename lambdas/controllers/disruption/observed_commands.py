"""Records which nodes would go while disruption is only observed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.ledger.writer import LedgerWriter, SearchBound
from adapters.observation.plan_cache import snapshot_digest
from adapters.ports import Clock
from adapters.run_report import RunReport
from adapters.runtime.clock import share_until
from core.disruption.decision import disrupt, startable
from core.gc_pause import collector_paused
from core.ledger.entry import DISRUPT
from core.ledger.search_time import RecordedTime
from core.ledger.summary import command_sentence, observed, of_disruption
from core.model.plan import Command
from core.model.snapshot import Snapshot
from core.pools.observed_pools import as_acting, observed_pools
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason

STORING: Final = timedelta(seconds=45)
"""Time reserved after the decision for the ledger and for storing commands, some milliseconds each."""

PLAN_ID: Final = "observed"

REUSED_FOR: Final = timedelta(minutes=5)
"""After this time, even an unchanged cluster is decided again (Karpenter): `consolidateAfter` expires without a change."""


class ObservedCommands:
    """The recorded commands of one sandbox, which are not carried out; each state of the cluster is recorded once."""

    def __init__(self, ledger: LedgerWriter, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._decided = ""
        self._decided_at: datetime | None = None
        self._last_recorded = ""

    def observe(self, snapshot: Snapshot, report: RunReport, *, until: datetime) -> None:
        """Decide as if observed NodePools were not, and record the commands for their nodes. Never raises PortError."""
        pools = observed_pools(snapshot)
        if pools:
            self.record(as_acting(snapshot), report, pools=pools, until=until)

    def record(
        self, snapshot: Snapshot, report: RunReport, *, until: datetime, pools: Collection[str] | None = None
    ) -> None:
        """Decide about this snapshot, and record the decision.

        Args:
            snapshot: The input of the decision.
            report: Collects the decisions.
            until: When the decision must end.
            pools: Only commands that concern these are recorded, and only decisions with any; None: all commands, and a
                decision for each new snapshot.
        """
        digest, now = snapshot_digest(snapshot), self._clock.now()
        is_same = digest == self._decided
        if is_same and self._decided_at is not None and now - self._decided_at < REUSED_FOR:
            return
        self._decided, self._decided_at = digest, now
        time = RecordedTime(share_until(self._clock, until))
        with collector_paused():
            plan = disrupt(snapshot, deadline=time, proves=self._ledger.is_kept)
        bound = SearchBound(snapshot.options.improve_iterations, tuple(time.elapsed))
        draft = self._ledger.draft(DISRUPT, snapshot, plan, bound, is_observed=True)
        concerned = _concerns(snapshot, pools)
        commands = [command for command in startable(plan.commands) if concerned(command)]
        shown = plan if pools is None else msgspec.structs.replace(plan, blocked=())
        summary = observed(of_disruption(shown, [(f"{PLAN_ID}-{n}", command) for n, command in enumerate(commands)]))
        is_new, self._last_recorded = summary.what != self._last_recorded, summary.what
        if (is_same and not is_new) or (pools is not None and not (commands and is_new)):
            return
        report.decision_id = report.decision_id or draft.id
        for command in commands if is_new else ():
            message = f"would {command_sentence(command)} ({draft.id or 'no ledger'})"
            reason = TerminationReason.stored(command.reason)
            report.decide(DecisionKind.OBSERVE, ", ".join(command.nodes), reason, message)
        if not self._ledger.try_write(draft, summary, report):
            self._decided = ""


def _concerns(snapshot: Snapshot, pools: Collection[str] | None) -> Callable[[Command], bool]:
    """Whether a command removes or launches a node of these NodePools."""
    pool_of = {claim.name: claim.node_pool for claim in snapshot.node_claims}

    def concerned(command: Command) -> bool:
        named = {pool_of.get(name, "") for name in command.claims} | {new.node_pool for new in command.replacements}
        return pools is None or not named.isdisjoint(pools)

    return concerned
