"""The slow round: what no event tells, and what an event told but nobody did. Everything converges from here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.disruption.budgets import BudgetLedger, remaining
from core.disruption.expiration import expired
from core.disruption.reasons import REASONS
from core.disruption.windows import window_schedules
from core.lifecycle.records import ClaimRecord
from core.manifests import resources as kinds
from core.model.state_node import state_nodes
from core.model.taints import DISRUPTED
from lambdas.controllers.claim_work import ClaimWork
from lambdas.controllers.cluster_look import ClusterLook
from lambdas.controllers.disruption import write_pod_events
from lambdas.controllers.node_writes import release_node
from lambdas.controllers.object_status import ObjectStatus
from lambdas.controllers.orphans import Orphans
from lambdas.decisions import Outcome
from lambdas.messages import work_on_claim, work_on_command
from lambdas.observer import Memory, Observer
from lambdas.ports import Clock, CloudProvider, Kubernetes, NotFoundError, PortError, Queue, WindowSchedules
from lambdas.view import View

STALLED_AFTER: Final = timedelta(minutes=1)
PRUNES_EVERY: Final = timedelta(hours=12)
"""Launch templates are kept for weeks; a look at them twice a day is often enough."""

LOOKS: Final = timedelta(minutes=2)
"""How long a chain of looks lasts that is begun here: until the next round begins another."""


class Reconciliation:
    """What `reconcile` does: parts that do not depend on each other, so that one that fails does not stop the others."""

    def __init__(
        self,
        world: World,
        observer: Observer,
        memory: Memory,
        claim_work: ClaimWork,
        orphans: Orphans,
        status: ObjectStatus,
        work: Queue,
    ) -> None:
        self._world = world
        self._observer = observer
        self._memory = memory
        self._claim_work = claim_work
        self._orphans = orphans
        self._status = status
        self._work = work
        self._windows: Mapping[str, str] | None = None
        self._pruned_at: datetime | None = None

    def run(self, outcome: Outcome) -> None:
        """One round. Instances are listed before claims are read, see `Orphans`."""
        instances = self._world.cloud.instances()
        view = self._observer.look(with_market=False)
        parts: tuple[tuple[str, Callable[[], None]], ...] = (
            ("podEvents", lambda: write_pod_events(self._memory, view)),
            ("status", lambda: self._status.write(view, outcome)),
            ("orphans", lambda: self._orphans.settle(instances, view, outcome)),
            ("expiry", lambda: self._expire(view, outcome)),
            ("deletedPools", lambda: self._let_go_of_deleted_pools(view, outcome)),
            ("deletedNodes", lambda: self._look_after_deleted_nodes(view, outcome)),
            ("strayTaints", lambda: self._free_stray_nodes(view, outcome)),
            ("windows", lambda: self._follow_windows(view)),
            ("stalled", lambda: self._resume(outcome)),
            ("templates", lambda: self._prune_templates(outcome)),
        )
        for name, part in parts:
            try:
                part()
            except PortError as error:
                outcome.count("portErrors")
                outcome.decide("skip", name, type(error).__name__, str(error))
        outcome.count("claims", len(view.claims))
        outcome.count("instances", len(instances))
        outcome.count("fleetMillidollarsPerHour", _millidollars(view.claims.values()))
        for problem in view.problems:
            outcome.decide(
                "skip", problem.subject, "CannotBeRead" if not problem.is_warning else "Warning", str(problem)
            )

    def _expire(self, view: View, outcome: Outcome) -> None:
        """Let expired claims go as far as the budgets bear it; the others' turn comes (Karpenter asks no budget here)."""
        ledger = BudgetLedger(remaining(view.snapshot, state_nodes(view.snapshot)))
        for name in expired(view.snapshot):
            record = view.claims[name]
            pool = record.plan.node_pool
            if not all(ledger.allows(pool, reason) for reason in REASONS):
                outcome.count("expiredButBlocked")
                continue
            ledger.take(pool)
            outcome.decide("expire", name, "Expired", f"older than {record.plan.expire_after}")
            self._let_go(name, "Expired", "expireAfter has passed", outcome)

    def _prune_templates(self, outcome: Outcome) -> None:
        now = self._world.clock.now()
        if self._pruned_at is None or now - self._pruned_at >= PRUNES_EVERY:
            outcome.count("prunedTemplates", self._world.cloud.prune_templates())
            self._pruned_at = now

    def _let_go_of_deleted_pools(self, view: View, outcome: Outcome) -> None:
        """Nodes go with their NodePool (Kubernetes' garbage collection does that for Karpenter's)."""
        present = {pool.name for pool in view.snapshot.node_pools if pool.deleted_at is None}
        for pool in sorted({record.plan.node_pool for record in view.claims.values()} - present):
            if self._pool_exists(pool):
                continue
            for record in view.claims.values():
                if record.plan.node_pool == pool and record.deletion is None:
                    self._let_go(record.name, "NodePoolDeleted", f"NodePool {pool} is gone", outcome)

    def _look_after_deleted_nodes(self, view: View, outcome: Outcome) -> None:
        """Somebody deleted a Node whose instance runs on: `execute` looks again by name, and lets the claim go."""
        staying = {node.name for node in view.snapshot.nodes if node.deleted_at is None}
        gone = [r.name for r in view.claims.values() if r.is_resting and r.node_name not in staying]
        now = self._world.clock.now()
        self._work.send(work_on_claim(name, now, looks=LOOKS) for name in gone)
        outcome.count("deletedNodes", len(gone))

    def _pool_exists(self, name: str) -> bool:
        """Asked once more by name: a list may be stale, and a whole pool is at stake."""
        try:
            self._world.kubernetes.get(kinds.NODE_POOLS, name)
        except NotFoundError:
            return False
        return True

    def _let_go(self, name: str, reason: str, message: str, outcome: Outcome) -> None:
        record = self._memory.claims.get(name)
        if record is not None and record.deletion is None:
            self._claim_work.begin_termination(record, reason, message, outcome)
            self._work.send([work_on_claim(name, self._world.clock.now())])

    def _free_stray_nodes(self, view: View, outcome: Outcome) -> None:
        """Take the disrupted taint off nodes that nobody is disrupting: a command was lost half-way (Karpenter)."""
        ours = {record.node_name: record for record in view.claims.values() if record.node_name}
        marked = [node for node in view.snapshot.nodes if DISRUPTED in node.taints and node.name in ours]
        if not marked:
            return
        look = ClusterLook(self._world.kubernetes, self._world.cloud, self._world.clock)
        suspects = {node.name: seen for node in marked if (seen := look.node(node.name)) is not None}
        busy = {claim for command in self._memory.commands.all() for claim in command.command.claims}
        for name, seen in suspects.items():
            record = self._memory.claims.get(ours[name].name)
            if (
                record is None
                or record.deletion is not None
                or record.name in busy
                or DISRUPTED not in seen.node.taints
            ):
                continue
            release_node(self._world.kubernetes, seen)
            outcome.decide("abandon", name, "StrayTaint", "no command is disrupting this node")

    def _follow_windows(self, view: View) -> None:
        if self._world.windows is None:
            return
        wanted = window_schedules(view.snapshot.node_pools, view.snapshot.now)
        if wanted != self._windows:
            self._world.windows.replace(wanted)
            self._windows = dict(wanted)

    def _resume(self, outcome: Outcome) -> None:
        """Ask for the next step of everything that has stood still: its message may be lost, or it takes long."""
        now = self._world.clock.now()
        stalled = [
            record
            for record in self._memory.claims.all()
            if not record.is_resting and now - _last_moved(record) >= STALLED_AFTER
        ]
        commands = [record for record in self._memory.commands.all() if now - record.phase_since >= STALLED_AFTER]
        self._work.send(work_on_claim(record.name, now, looks=LOOKS) for record in stalled)
        self._work.send(work_on_command(record.id, now, looks=LOOKS) for record in commands)
        outcome.count("resumed", len(stalled) + len(commands))


class World(msgspec.Struct, frozen=True):
    """What a round acts on besides our own table; `windows` is None where budget windows wake nobody."""

    kubernetes: Kubernetes
    cloud: CloudProvider
    windows: WindowSchedules | None
    clock: Clock


def _last_moved(record: ClaimRecord) -> datetime:
    return max(record.phase_since, record.deletion.asked_at) if record.deletion else record.phase_since


def _millidollars(records: Iterable[ClaimRecord]) -> int:
    """What the claims' instances cost an hour at the prices of their launch; metrics are whole numbers."""
    return sum(record.machine.offering.price for record in records if record.machine) // 10**6
