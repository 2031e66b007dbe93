"""What a sweep is, the observations and time that the sweeps of one round share, and terminations within budgets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import msgspec

from adapters.brakes import Brakes, skipped
from adapters.messages import work_on_claim
from adapters.observation.observer import ClusterState
from adapters.ports import Clock, Instance, Queue, TransientError
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core.brakes import BrakeKind, action_of
from core.disruption.budget_openings import budget_explanation
from core.disruption.budgets import counted_nodes, going_nodes, next_edge, places
from core.disruption.expiration import objections
from core.disruption.move_history import Rollout
from core.lifecycle.claims import is_late_to_initialize
from core.lifecycle.deletion import VOLUNTARY, is_voluntary
from core.lifecycle.draining import EscalationLevel
from core.lifecycle.records import ClaimRecord
from core.model.state_node import state_nodes
from core.reasons.code import ClaimReason, DecisionKind, ReasonCode, TerminationReason
from core.reasons.nodes import NodeReason
from core.reasons.runs import RunReason
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.claim_deletion import ClaimDeletion

# Computes how many claims the NodePools' budgets let leave together, by the windows of the moment when a claim begins to go.
#
# A round of `reconcile` lasts minutes. If a window opens during the round, the budget bounds every removal that begins after
# it.


_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class BudgetPlaces:
    """The bounds of one reason for the counters of leaving claims, from one observation.

    See docs/engineering/handbook/draining.md.

    Args:
        view: The observation.
        reason: Why the claims leave.
        clock: Says when budgets are read.
        together: Names of claims that leave together: one that is not Ready does not use up the others' budget.
    """

    def __init__(self, view: ClusterState, reason: str, clock: Clock, *, together: Collection[str] = ()) -> None:
        self._snapshot = view.snapshot
        self._states = state_nodes(view.snapshot)
        self._holding = {claim.name for claim in view.claims.values() if claim.is_disrupting}.union(together)
        self._reason = reason
        self._clock = clock
        self._bounds: Mapping[str, int] = {}
        self._valid_until = _LONG_AGO

    def now(self) -> Mapping[str, int]:
        """Return NodePool → how many of its claims may hold a place now; NodePools without any limit are missing."""
        moment = self._clock.now()
        if moment >= self._valid_until:
            snapshot = msgspec.structs.replace(self._snapshot, now=moment)
            self._bounds = places(snapshot, self._states, [self._reason], self._holding)
            budgets = (budget for pool in snapshot.node_pools for budget in pool.disruption.budgets)
            self._valid_until = next_edge(budgets, moment) or _NEVER
        return self._bounds

    def explanation(self, pool: str) -> str:
        """Return why a NodePool's budgets let no further claim leave: what they allow, who uses it, when more may leave."""
        node_pool = next(candidate for candidate in self._snapshot.node_pools if candidate.name == pool)
        nodes = counted_nodes(self._snapshot, self._states).get(pool, 0)
        going = going_nodes(self._snapshot, self._states, self._reason).get(pool, [])
        return budget_explanation(node_pool, nodes, self._reason, going, self._clock.now())


# Begins the termination of claims for the sweeps, based on the current row instead of the snapshot.


class ClaimTerminator:
    """Begins terminations that brakes and budgets allow."""

    def __init__(self, claims: ClaimStore, deletion: ClaimDeletion, brakes: Brakes, work: Queue, clock: Clock) -> None:
        self._claims = claims
        self._deletion = deletion
        self._brakes = brakes
        self._work = work
        self._clock = clock

    def begin(
        self,
        name: str,
        reason: TerminationReason,
        message: str,
        report: RunReport,
        *,
        ends_at: datetime | None = None,
        drain_within: timedelta | None = None,
    ) -> None:
        """Store that the claim must be removed, and request its next step; no error if it is gone or leaving. Raises PortError.

        A claim whose removal a brake stops is unchanged and reported. `ends_at`: until when the drain may wait for
        replacements; `drain_within`: how long it may take before pods are forced off.
        """
        record = self._staying(name, reason, report)
        if record is not None:
            self._deletion.begin(record, reason, message, report, ends_at=ends_at, drain_within=drain_within)
            self._work.send([work_on_claim(name, self._clock.now())])

    def begin_within(
        self,
        name: str,
        reason: TerminationReason,
        message: str,
        places: Callable[[], Mapping[str, int]],
        report: RunReport,
        *,
        ends_at: datetime | None = None,
    ) -> bool:
        """As `begin`, if the NodePool's budgets have a place for the claim; False if they have none.

        `places` is asked right before the place is taken, after the calls that read the claim and the brakes: a window may have
        opened during them.
        """
        record = self._staying(name, reason, report)
        if record is None:
            return True
        if not self._deletion.begin_within(record, reason, message, places(), report, ends_at=ends_at):
            return False
        self._work.send([work_on_claim(name, self._clock.now())])
        return True

    def _staying(self, name: str, reason: TerminationReason, report: RunReport) -> ClaimRecord | None:
        """Return the current claim, None if it is gone or leaving, or a brake stops the removal.

        A voluntarily leaving claim counts as staying if the reason is mandatory.
        """
        record = self._claims.get(name)
        if record is None:
            return None
        if record.deletion is not None and (reason in VOLUNTARY or not is_voluntary(record.deletion)):
            return None
        brake = self._brakes.engaged().stopping(action_of(reason), record.plan.node_pool)
        if brake is not None and not (brake.kind is BrakeKind.POOL_PROBE and self._may_try(record.plan.node_pool)):
            skipped(brake, name, report)
            return None
        return record

    def _may_try(self, pool: str) -> bool:
        """Whether a removal may be the test of a half-open breaker: nothing else of the NodePool is under way.

        Without it, a NodePool without commands and pending pods would never find out that its nodes join again.
        """
        now, rows = self._clock.now(), (record for record in self._claims.all() if record.plan.node_pool == pool)
        return not any(_is_under_way(record, now) for record in rows)


def _is_under_way(record: ClaimRecord, now: datetime) -> bool:
    """Whether the claim comes or goes; not if it may stay as it is for days: in a blocked drain, or never ready for pods."""
    if record.deletion is not None:
        return record.deletion.escalation_level < EscalationLevel.BLOCKED
    return record.is_disrupting or not (record.is_settled or is_late_to_initialize(record, now))


T = TypeVar("T")

EACH_ROUND: Final = timedelta(0)

MARGIN: Final = timedelta(seconds=20)
"""No work begins with less remaining time: the next call may take four attempts, and the round must be reported."""


class Sweep(ABC):
    """Repairs one kind of inconsistency.

    Attributes:
        name: Its name in the log, camel case.
        every: The longest pause after a clean run.
        is_urgent: Whether its delay costs pods or money.
    """

    name: str
    every: timedelta = EACH_ROUND
    is_urgent: bool = False

    @abstractmethod
    def run(self, round_: ReconcileRound) -> None:
        """Repair what is wrong now; idempotent.

        Work on one object goes through `attempt` or `each` of the round, so that its failure does not affect others.
        """


class Seen(msgspec.Struct, frozen=True):
    """The observations at the start of a round; None for one that failed.

    Instances are listed before claims are read, so that a missing claim is really gone.

    Attributes:
        rollouts: The rows of rollouts, None if they were not read.
    """

    instances: tuple[Instance, ...] | None
    view: ClusterState | None
    rollouts: Mapping[str, Rollout] | None = None


class ReconcileRound:
    """One sweep's part of one round: the observations, and the sweep's progress."""

    def __init__(self, seen: Seen, report: RunReport, deadline: datetime, clock: Clock) -> None:
        self._seen = seen
        self._deadline = deadline
        self._boundary = Boundary(report)
        self.clock = clock
        self.report = report

    @property
    def view(self) -> ClusterState:
        """The observation. Raises TransientError if it failed."""
        if self._seen.view is None:
            raise TransientError("observer:observe", "the cluster could not be observed in this round")
        return self._seen.view

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Our instances. Raises TransientError if they could not be listed."""
        if self._seen.instances is None:
            raise TransientError("ec2:DescribeInstances", "the instances could not be listed in this round")
        return self._seen.instances

    @property
    def rollouts(self) -> Mapping[str, Rollout] | None:
        """The rows of rollouts as the round read them, None if it did not."""
        return self._seen.rollouts

    def saw_no_rows(self) -> bool:
        """Whether the observation succeeded and found neither claims nor commands."""
        view = self._seen.view
        return view is not None and not view.claims and not view.commands

    @property
    def failed(self) -> tuple[str, ...]:
        """Subjects that were skipped or failed, in order."""
        return tuple(self._boundary.failed)

    def has_time(self) -> bool:
        """Whether new work may begin."""
        return self.clock.now() + MARGIN <= self._deadline

    def attempt(self, subject: str, work: Callable[[], object]) -> bool:
        """Run one piece of work; return whether it succeeded. An error is reported under `subject`."""
        return self._boundary.attempt(subject, work)

    def each(self, items: Iterable[T], work: Callable[[T], object], *, subject: Callable[[T], str]) -> None:
        """Run the work for each item, independently, while there is time."""
        for item in items:
            if not self.has_time():
                self.leave(subject(item), RunReason.TIME_SHORT, "this and all further work is left to the next round")
                return
            self.attempt(subject(item), lambda item=item: work(item))  # type: ignore[misc]  # bound now

    def leave(self, subject: str, reason: ReasonCode, message: str) -> None:
        """Report that work was skipped; the sweep then is not clean."""
        self._boundary.leave(subject, reason, message)


# Terminates claims for one reason, within what budgets and pods allow.


@dataclass(frozen=True, kw_only=True)
class BudgetedTermination:
    """Terminations for one reason.

    Attributes:
        terminator: Begins each of them.
        reason: Why the claims are removed.
        blocked: The decision that is reported for a claim that a pod or an annotation keeps.
        blocked_count: Name of the count of claims that stay because of pods, annotations or budgets.
        waits: How long the drain may wait for replacements.
        grace_ends_them: Whether a terminationGracePeriod ends what pods object.
    """

    terminator: ClaimTerminator
    reason: TerminationReason
    blocked: ClaimReason
    blocked_count: str
    waits: timedelta
    grace_ends_them: bool = True

    def begin(
        self,
        names: Sequence[str],
        round_: ReconcileRound,
        *,
        message: Callable[[str], str],
        begun: Callable[[str], None] | None = None,
        until: Callable[[str], str] = lambda _: "",
    ) -> None:
        """Begin the terminations that nothing prevents; `begun` is called for each. An error affects one claim only.

        `until` says of a claim that a pod keeps, for how long it stays.

        For each NodePool whose budgets keep claims, one line of the report says which nodes use them and when they allow more.
        """
        kept = objections(round_.view.snapshot, names, grace_ends_them=self.grace_ends_them)
        if not names:
            return
        places = BudgetPlaces(round_.view, self.reason, round_.clock)
        waiting = Counter[str]()

        def terminate(name: str) -> None:
            if name in kept:
                round_.report.decide(DecisionKind.SKIP, name, self.blocked, f"{kept[name]}{until(name)}")
            elif self.terminator.begin_within(
                name, self.reason, message(name), places.now, round_.report, ends_at=round_.clock.now() + self.waits
            ):
                if begun is not None:
                    begun(name)
                return
            else:
                waiting[round_.view.claims[name].plan.node_pool] += 1
            round_.report.count(self.blocked_count)

        round_.each(names, terminate, subject=str)
        for pool, nodes in sorted(waiting.items()):
            explanation = f"{nodes} nodes wait for their turn: {places.explanation(pool)}"
            round_.report.decide(DecisionKind.SKIP, pool, NodeReason.BUDGET, explanation)
