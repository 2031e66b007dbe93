"""Carries out a claim's next steps; the intent is stored first where losing it would lose an instance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.brakes.steps import action_of_step
from core.errors import invariant
from core.lifecycle import steps
from core.lifecycle.backoff import recheck_after
from core.lifecycle.claims import needs_instance, next_claim_step
from core.lifecycle.draining import deletion
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from lambdas.brakes.joining import went
from lambdas.brakes.ports import skipped
from lambdas.controllers.draining.drain_cancellation import DrainCancellation
from lambdas.controllers.draining.draining import Draining
from lambdas.controllers.draining.replacements import Replacing
from lambdas.controllers.draining.surge import Surge
from lambdas.controllers.launching import instance_outcomes
from lambdas.controllers.launching.launching import Launcher
from lambdas.controllers.node_lifecycle.check_chains import CheckChains
from lambdas.controllers.node_lifecycle.node_registration import NodeRegistration
from lambdas.controllers.nodes.node_events import NodeEvents
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from lambdas.controllers.resting.run_requests import request_run
from lambdas.messages import check_command, wake_up
from lambdas.metric_names import INSTANCES_TERMINATED
from lambdas.observation.observer import Observer, Stores
from lambdas.ports import (
    Clock,
    CloudProvider,
    ConflictError,
    FunctionQueues,
    Kubernetes,
    NotFoundError,
)
from lambdas.run_report import RunReport
from lambdas.settings import Settings
from lambdas.store import ClaimChange

MAX_STEPS: Final = 8
"""Most steps of one claim in one call; the longest way from a drained node to nothing left takes five."""

SOON: Final = timedelta(seconds=1)
HELD_BACK: Final = timedelta(seconds=30)
"""Delay until a claim that a brake stops is checked again."""


class ClaimWork:
    """Advances one claim as far as possible now."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        cloud: CloudProvider,
        stores: Stores,
        launcher: Launcher,
        observer: Observer,
        settings: Settings,
        queues: FunctionQueues,
        clock: Clock,
    ) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud
        self._claims = stores.claims
        self._chains = CheckChains(stores.claims)
        self._launcher = launcher
        self._observer = observer
        self._nodes = NodeRegistration(kubernetes, stores, settings, clock)
        self._binds = settings.bind_pods
        self._node_news = NodeEvents(kubernetes, clock)
        surge = Surge(kubernetes, is_on=settings.surge_restarts)
        self._draining = Draining(kubernetes, stores.claims, surge, clock)
        self._replacing = Replacing(stores.claims)
        self._cancellation = DrainCancellation(kubernetes, stores.claims, clock)
        self._brakes = stores.brakes
        self._breakers = stores.breakers
        self._wake_ups, self._work, self._looks = queues.wake_ups, queues.work, queues.looks
        self._clock = clock

    def advance(
        self, name: str, reader: NodeStateReader, report: RunReport, *, until: datetime | None = None
    ) -> timedelta | steps.BindPods | None:
        """Take all steps that are possible; `until` is the end of the chain of checks that this one belongs to.

        Returns:
            When to look again, None if there is nothing to wait for, or a later chain waits for it; the binding of pods is
            left to whoever calls, who knows the claims that have their turn together.
        """
        record = self._claims.get(name)
        if record is None:
            return None
        found = self._steps(record, reader, report)
        return found if found is not None and self._chains.goes_on(record, until) else None

    def _steps(
        self, claim: ClaimRecord, reader: NodeStateReader, report: RunReport
    ) -> timedelta | steps.BindPods | None:
        record: ClaimRecord | None = claim
        last: steps.ClaimStep | None = None
        for _ in range(MAX_STEPS):
            if record is None:
                return None
            facts = self._with_share(record, self._replacing.with_replacements(record, reader.facts(record)), reader)
            step = next_claim_step(record, facts, self._clock.now(), binds=self._binds)
            if isinstance(step, steps.NoStep):
                return None
            if isinstance(step, steps.BindPods):
                return step
            if isinstance(step, steps.Wait):
                return step.delay
            if self._is_held_back(record, step, report):
                return HELD_BACK
            if isinstance(step, steps.Drain):
                return self._draining.drain(record, step, facts, report)
            if step == last:
                return recheck_after(_since(record), self._clock.now())
            last, before = step, record
            record = self._take(record, step, reader, report)
            if record is None and before.machine is None and before.deletion is None and before.plan.made_by_hand:
                self._node_news.not_launched(before.name, report.decisions)
            self._request_runs_for_room(before, record)
            if record is not None and record.attempts > before.attempts:
                return recheck_after(record.requested_at, self._clock.now())
        return SOON

    def _with_share(self, record: ClaimRecord, facts: ClaimFacts, reader: NodeStateReader) -> ClaimFacts:
        """Complete the facts by an instance of a shared launch that no claim has yet."""
        if record.shares == 1 or facts.tagged_instance or not needs_instance(record, None, self._clock.now()):
            return facts
        if record.machine is not None:
            return facts
        launched = (found.instance_id for found in reader.launched_with(record))
        free = next((found for found in launched if self._claims.of_instance(found) is None), "")
        return msgspec.structs.replace(facts, tagged_instance=free)

    def _is_held_back(self, record: ClaimRecord, step: steps.ClaimStep, report: RunReport) -> bool:
        """Whether a brake stops the step."""
        action = action_of_step(record, step)
        brake = self._brakes.engaged().stopping(action, record.plan.node_pool) if action is not None else None
        if brake is not None:
            skipped(brake, record.name, report)
        return brake is not None

    def _take(
        self, record: ClaimRecord, step: steps.ClaimStep, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Do one step; return the claim after it, None once it is forgotten."""
        match step:
            case steps.Launch():
                return self._launch(record, reader, report)
            case steps.Adopt():
                return self._adopt(record, step, reader, report)
            case steps.Register():
                return self._nodes.register(record, step, reader, report)
            case steps.NoteUsable():
                return self._nodes.note_usable(record)
            case steps.MarkInitialized():
                return self._initialize(record, step, reader, report)
            case steps.ReportNode():
                return self._report(record, step, reader, report)
            case steps.BeginTermination():
                return self.begin_termination(record, step.reason, step.message, report)
            case steps.Forget():
                self._forget(record, step, report)
                return None
            case _:
                return self._take_to_its_end(record, step, reader, report)

    def _initialize(
        self, record: ClaimRecord, step: steps.MarkInitialized, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord:
        """Open the node; a command that waits for it goes on at once."""
        opened = self._nodes.mark_initialized(record, step, reader, report)
        if opened.command:
            self._work.send([check_command(opened.command)])
        return opened

    def _take_to_its_end(
        self, record: ClaimRecord, step: steps.ClaimStep, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Do one step of a leaving claim."""
        match step:
            case steps.CancelDrain():
                return self._cancellation.carry_out(record, step, reader, report)
            case steps.Escalate():
                return self._draining.escalate(record, step, report)
            case steps.TaintNode():
                return self._draining.taint(record, step, reader)
            case steps.TerminateInstance():
                return self._terminate(record, report)
            case steps.DeleteNode():
                return self._draining.delete_node(record, step, reader, report)
            case _:
                invariant(False, f"{step} is no step to take")
                return None

    def begin_termination(
        self,
        record: ClaimRecord,
        reason: TerminationReason,
        message: str,
        report: RunReport,
        *,
        ends_at: datetime | None = None,
    ) -> ClaimRecord:
        """Store that the claim must be removed, whatever the budgets say; it counts in them.

        A claim that is leaving already is unchanged, unless it left by our own choice and now must, or must leave sooner.
        `ends_at` is when its instance would end, and so bounds the wait for replacements.
        """
        if record.deletion is not None:
            after = deletion.hurried(record, reason, message, ends_at)
            if after is record:
                return record
            report.decide(DecisionKind.TERMINATE, record.name, reason, message)
            return self._claims.change(record, after)
        changed = self._claims.change(record, deletion.leaving(record, reason, message, self._clock.now(), ends_at))
        self._has_begun(changed, reason, message, report)
        return changed

    def begin_within(
        self,
        record: ClaimRecord,
        reason: TerminationReason,
        message: str,
        places: Mapping[str, int],
        report: RunReport,
        *,
        ends_at: datetime | None = None,
    ) -> bool:
        """As `begin_termination`, for a claim that stays so far, if its NodePool's budgets have a place; return whether.

        `places` is how many of a NodePool's claims may hold one (`core.disruption.budgets.node_pool_budgets.places`).
        """
        after = deletion.leaving(record, reason, message, self._clock.now(), ends_at)
        if record.phase is ClaimPhase.REGISTERED:  # its node may be initialized already, if an answer was lost
            after = msgspec.structs.replace(after, is_disrupting=True)
        if not after.is_disrupting:
            self._claims.change(record, after)
        elif self._claims.disrupt([ClaimChange(record, after)], places).spent:
            return False
        self._has_begun(after, reason, message, report)
        return True

    def _has_begun(self, record: ClaimRecord, reason: TerminationReason, message: str, report: RunReport) -> None:
        report.decide(DecisionKind.TERMINATE, record.name, reason, message)
        went(self._breakers, record, reason, self._clock.now(), report)
        self._wake_ups.send([wake_up(reason)])

    def _launch(self, record: ClaimRecord, reader: NodeStateReader, report: RunReport) -> ClaimRecord | None:
        now = self._clock.now()
        if record.awaits_pods and not record.attempts and not reader.unbound_pods(record.plan.pods):
            report.decide(
                DecisionKind.FORGET,
                record.name,
                ClaimReason.PODS_PLACED_ELSEWHERE,
                "none of its pods waits for a node any more",
            )
            self._claims.forget(record)
            return None
        obstacle = self._limit_in_the_way(record, reader) if not record.attempts else ""
        if obstacle:
            report.decide(DecisionKind.FORGET, record.name, ClaimReason.LIMIT_REACHED, obstacle)
            self._claims.forget(record)
            self._wake_ups.send([wake_up("limit reached")])
            return None
        try:
            node_class = self._observer.node_class(record.plan.node_class.name)
        except NotFoundError as error:
            report.decide(DecisionKind.FORGET, record.name, ClaimReason.NODE_CLASS_NOT_FOUND, str(error))
            self._claims.forget(record)
            return None
        catalogue = self._observer.open_market.catalogue([node_class], now)
        launched = self._launcher.launch(record, node_class, catalogue, now, report)
        if launched is None:
            self._wake_ups.send([wake_up("refused launch")])
        return launched

    def _limit_in_the_way(self, record: ClaimRecord, reader: NodeStateReader) -> str:
        """Return the limit of its NodePool that is exceeded by now, empty for none: rows were lost, or the limit lowered."""
        name = record.plan.node_pool
        limits = {key: limit for key, limit in reader.limits(name).items() if record.reserved.get(key, 0) > 0}
        if not limits:
            return ""
        used = next((usage.reserved for usage in self._claims.usage() if usage.node_pool == name), {})
        over = next((key for key, limit in sorted(limits.items()) if used.get(key, 0) > limit), "")
        return f"NodePool {name} is over its limit of {over} without this claim's instance" if over else ""

    def _adopt(
        self, record: ClaimRecord, step: steps.Adopt, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        instance = reader.instance(step.instance_id)
        if instance is None:
            raise ConflictError("ec2:DescribeInstances", f"instance {step.instance_id} is gone again")
        now = self._clock.now()
        node_classes = [self._observer.node_class(record.plan.node_class.name)]
        report.decide(DecisionKind.ADOPT, record.name, ClaimReason.FOUND_BY_TAG, f"instance {step.instance_id}")
        return self._launcher.adopt(record, instance, self._observer.open_market.catalogue(node_classes, now), now)

    def _report(
        self, record: ClaimRecord, step: steps.ReportNode, reader: NodeStateReader, report: RunReport
    ) -> ClaimRecord | None:
        """Store the report first, so that it is made only once."""
        reported = msgspec.structs.replace(record, reason=step.reason, message=step.message)
        changed = self._claims.change(record, reported)
        report.decide(DecisionKind.SKIP, step.node, step.reason, step.message)
        self._node_news.publish(step, reader.unbound_pods(step.pods) if step.pods else ())
        return changed

    def _terminate(self, record: ClaimRecord, report: RunReport) -> ClaimRecord | None:
        self._cloud.terminate([record.instance_id])
        reason = TerminationReason.stored(record.deletion.reason if record.deletion else "")
        report.decide(DecisionKind.TERMINATE, record.instance_id, reason, f"instance of {record.name}")
        if record.deletion is not None and record.deletion.terminated_at is None:
            report.count(INSTANCES_TERMINATED)
            report.outcomes += instance_outcomes.went(record, reason, self._clock.now())
        return self._claims.change(record, deletion.terminated(record, self._clock.now()))

    def _forget(self, record: ClaimRecord, step: steps.Forget, report: RunReport) -> None:
        report.decide(DecisionKind.FORGET, record.name, step.reason, step.message)
        self._claims.forget(record)
        if record.deletion is None or record.deletion.terminated_at is None:
            report.outcomes += instance_outcomes.went(record, step.reason, self._clock.now())
        if record.deletion is None and record.attempts:  # one that was never tried says nothing about its NodePool
            went(self._breakers, record, step.reason, self._clock.now(), report)

    def _request_runs_for_room(self, before: ClaimRecord, after: ClaimRecord | None) -> None:
        """Wake who waits for what a leaving claim has released.

        `disrupt` waits for its place in the budgets, which is free as soon as EC2 has been asked to terminate the instance, and
        `provision`, for pods, for its share of the NodePool's limits.
        """
        if before.is_disrupting and (after is None or not after.is_disrupting):
            request_run(self._looks, "place in the budgets free")
        if before.deletion is not None and before.reserved and (after is None or not after.reserved):
            self._wake_ups.send([wake_up(before.deletion.reason)])


def _since(record: ClaimRecord) -> datetime:
    """Return when the claim's present stage began: the longer it takes, the less often a failing step is repeated."""
    return record.deletion.asked_at if record.deletion else record.phase_since
