"""Builds the rows of a plan's claims, which are stored before anything is launched."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.ports import Clock
from adapters.store import Lease
from core.lifecycle.launching.shared_launch import SHARES_MAX
from core.lifecycle.records import ClaimRecord, Moments
from core.model.plan import Plan, Unschedulable
from core.model.pod import Pod
from core.reasons.refusal import Refusal
from lambdas.controllers.launching.claim_record import with_class_hash, with_decision
from lambdas.controllers.launching.launching import Launcher


class ClaimRecords:
    """Names claims and builds their rows."""

    def __init__(self, launcher: Launcher, clock: Clock, *, at_most: int) -> None:
        """`at_most`: how many claims a run launches itself, which bounds shared launches too."""
        self._launcher = launcher
        self._clock = clock
        self._shares_max = max(1, min(SHARES_MAX, at_most))

    def of_plan(
        self, plan: Plan, decision: str, view: ClusterState, lease: Lease, *, used: int, heard_at: datetime | None
    ) -> tuple[list[ClaimRecord], Plan]:
        """Return records for the planned claims, and the plan without unlaunchable claims, whose pods get the reason.

        The lease's stamp makes the names permanently unique.

        Args:
            plan: The plan.
            decision: Its id in the ledger.
            view: The observation of the plan.
            lease: The planner's.
            used: How many names this run has used.
            heard_at: When this run learned of the pods.
        """
        snapshot, now = view.snapshot, self._clock.now()
        pods = {pod.key: pod for pod in snapshot.pods}
        bound = {pod.key for pod in snapshot.pods if pod.node_name}
        records, left_out = list[ClaimRecord](), list[Unschedulable]()
        for planned in plan.claims:
            named = with_decision(with_class_hash(planned, snapshot.node_classes), decision)
            name = f"{planned.node_pool}-{lease.stamp}-{used + len(records)}"
            record = self._launcher.record(named, name, snapshot, now)
            if isinstance(record, Refusal):
                left_out += [Unschedulable(pod, record.reason, record.message) for pod in planned.pods]
                continue
            awaits_pods = bool(planned.pods) and not planned.buffer_pods and bound.isdisjoint(planned.pods)
            moments = _moments((pods[key] for key in planned.pods if key in pods), heard_at)
            records.append(msgspec.structs.replace(record, awaits_pods=awaits_pods, moments=moments))
        records = self._launcher.shared(records, snapshot, at_most=self._shares_max)
        return records, msgspec.structs.replace(plan, unschedulable=tuple(sorted((*plan.unschedulable, *left_out))))


def _moments(pods: Iterable[Pod], heard_at: datetime | None) -> Moments:
    """Return the moments of a claim that are known when it is planned: its pods' and this run's."""
    found = tuple(pods)
    return Moments(
        pods_created_at=min((pod.created_at for pod in found if pod.created_at is not None), default=None),
        pods_marked_at=min(
            (pod.unschedulable_since for pod in found if pod.unschedulable_since is not None), default=None
        ),
        heard_at=heard_at,
    )
