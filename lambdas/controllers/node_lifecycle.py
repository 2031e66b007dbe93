"""Advances a claim: finds its next step, checks the brakes and takes the step, until there is something to wait for."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.brakes import skipped
from adapters.messages import CHECKED_FOR, wake_up
from adapters.observation.stores import Stores
from adapters.ports import Clock, ConflictError, FunctionQueues
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core.brakes import Action
from core.breakers import action_of_step
from core.lifecycle import steps
from core.lifecycle.claims import needs_instance, next_claim_step
from core.lifecycle.deletion import is_draining, is_stopped, with_clock
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.steps import ClaimFacts, recheck_after
from core.model.values.taints import DISRUPTED
from lambdas.controllers.claim_launch import InstanceNames, free_of_launch
from lambdas.controllers.draining import Replacing
from lambdas.controllers.node_registration import ClaimSteps
from lambdas.controllers.nodes import NodeStateReader
from lambdas.controllers.run_requests import request_run
from lambdas.controllers.sweeps.due_work import NEXT_CHECK_WITHIN

# Ends all chains of checks of a claim except the longest (docs/engineering/handbook/scale.md).
#
# A message about a claim begins a chain: each check requests the next until the chain ends. All chains last equally long, so
# the one that lasts longest began last.


CLOCKS_APART: Final = timedelta(minutes=1)
"""A stored chain that lasts longer than a new one by more than this is of a wrong clock: all others would end for it, though
it may go on nowhere (docs/engineering/handbook/state.md)."""


class CheckChains:
    """Identifies each claim's chain by its end, which the claim's row stores: one write for each chain, none for its checks."""

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims

    def goes_on(self, record: ClaimRecord, until: datetime | None, now: datetime) -> bool:
        """Whether the chain that ends at `until` continues; `record` is the claim as the check read it.

        A chain that lasts longer than all before is stored, unless the check has changed the claim; then the next check stores
        it.
        """
        if until is None or record.checked_until == until:
            return True
        latest = max(until, now + CHECKED_FOR + CLOCKS_APART)
        if record.checked_until is not None and until < record.checked_until <= latest:
            return False
        with suppress(ConflictError):
            self._claims.change(record, msgspec.structs.replace(record, checked_until=until))
        return True


# Records since when this sandbox knows that held nodes are ready: a single clock needs no allowance for clock differences.


REMEMBERED: Final = 5_000
"""The most claims; when there are more, all are dropped, and the times in their rows are used."""


class ReadyNodes:
    """The claims of one sandbox whose nodes wait for their first turn. Sandboxes do not share these times."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, datetime], datetime] = {}

    def known_for(self, record: ClaimRecord, now: datetime) -> timedelta:
        """Return how long this sandbox has known that the node is usable: zero at first, and where its pods are bound."""
        usable_at = record.moments.usable_at
        if usable_at is None or record.phase is not ClaimPhase.REGISTERED or record.is_bound:
            return timedelta(0)
        if len(self._known) >= REMEMBERED:
            self._known = {}
        return now - self._known.setdefault((record.name, usable_at), now)


MAX_STEPS: Final = 8
"""The most steps of one claim in one call; from a drained node to the deletion of the row it takes at most five."""

SOON: Final = timedelta(seconds=1)
HELD_BACK: Final = timedelta(seconds=30)
"""Delay until a claim that a brake stops is checked again."""


class ClaimWork:
    """Advances one claim as far as possible now."""

    def __init__(
        self,
        stores: Stores,
        claim_steps: ClaimSteps,
        names: InstanceNames,
        queues: FunctionQueues,
        clock: Clock,
        *,
        binds: bool,
    ) -> None:
        """`binds`: whether planned pods are bound to their nodes."""
        self._claim_steps = claim_steps
        self._names = names
        self._claims = stores.claims
        self._chains = CheckChains(stores.claims)
        self._binds = binds
        self._ready_nodes = ReadyNodes()
        self._replacing = Replacing(stores.claims)
        self._brakes = stores.brakes
        self._wake_ups, self._run_requests = queues.wake_ups, queues.run_requests
        self._clock = clock

    def advance(
        self,
        name: str,
        reader: NodeStateReader,
        report: RunReport,
        *,
        until: datetime | None = None,
        is_first: bool = False,
    ) -> timedelta | steps.BindPods | None:
        """Take all possible steps.

        Args:
            name: The claim.
            reader: Reads its facts.
            report: Takes what happens.
            until: End of this check's chain of messages; None if the table alone brings the next one.
            is_first: Whether the check begins its chain.

        Returns:
            When to check again, None if there is nothing to wait for or a longer chain checks it. The caller binds pods, since
            it knows the claims that have a common turn.
        """
        record = self._claims.get(name)
        if record is None:
            return None
        # Its removal has a cause of its own, which the reason and the message name.
        report.decision_id = record.decision if record.deletion is None else ""
        if is_first:
            record = self._names.give(record, report)
        advanced = self._steps(
            self._with_clock(record), reader, report, NEXT_CHECK_WITHIN if until is None else timedelta(0)
        )
        return advanced if advanced is not None and self._chains.goes_on(record, until, self._clock.now()) else None

    def _steps(
        self, claim: ClaimRecord, reader: NodeStateReader, report: RunReport, next_check_within: timedelta
    ) -> timedelta | steps.BindPods | None:
        record: ClaimRecord | None = claim
        last: steps.ClaimStep | None = None
        for _ in range(MAX_STEPS):
            if record is None:
                return None
            facts = msgspec.structs.replace(self._facts(record, reader), next_check_within=next_check_within)
            step = next_claim_step(record, facts, self._clock.now(), binds=self._binds)
            if isinstance(step, steps.NoStep):
                return None
            if isinstance(step, steps.BindPods):
                return step
            if isinstance(step, steps.Wait):
                return step.delay
            if self._is_held_back(record, step, report):
                return HELD_BACK
            if _takes_pods(step) and _was_released(facts, reader):
                return SOON
            if isinstance(step, steps.Drain):
                return self._claim_steps.drain(record, step, facts, report)
            if step == last:
                return recheck_after(_since(record), self._clock.now())
            last, before = step, record
            record = self._claim_steps.take(record, step, reader, report)
            self._request_runs_for_capacity(before, record)
            if record is not None and record.attempts > before.attempts:
                return recheck_after(record.requested_at, self._clock.now())
        return SOON

    def _with_clock(self, record: ClaimRecord) -> ClaimRecord:
        """Stop the clock of a drain while a brake holds it, even if nothing is to be done for it now."""
        if not is_draining(record):
            return record
        brake = self._brakes.engaged().stopping(Action.DRAIN, record.plan.node_pool)
        after = with_clock(record, self._clock.now(), is_held=brake is not None)
        return record if after is record else self._claims.change(record, after)

    def _facts(self, record: ClaimRecord, reader: NodeStateReader) -> ClaimFacts:
        facts = self._with_share(record, self._replacing.with_replacements(record, reader.facts(record)), reader)
        return msgspec.structs.replace(facts, usable_for=self._ready_nodes.known_for(record, self._clock.now()))

    def _with_share(self, record: ClaimRecord, facts: ClaimFacts, reader: NodeStateReader) -> ClaimFacts:
        """Complete the facts with an instance of the shared launch that no claim has yet."""
        if record.shares == 1 or facts.tagged_instance or not needs_instance(record, None, self._clock.now()):
            return facts
        if record.machine is not None:
            return facts
        return msgspec.structs.replace(facts, tagged_instance=free_of_launch(record, reader, self._claims))

    def _is_held_back(self, record: ClaimRecord, step: steps.ClaimStep, report: RunReport) -> bool:
        """Whether a brake stops the step, or was released after the drain's clock was last compared with brakes."""
        action = action_of_step(record, step)
        brake = self._brakes.engaged().stopping(action, record.plan.node_pool) if action is not None else None
        if brake is not None:
            skipped(brake, record.name, report)
        return brake is not None or (action is Action.DRAIN and is_stopped(record))

    def _request_runs_for_capacity(self, before: ClaimRecord, after: ClaimRecord | None) -> None:
        """Wake the functions that may wait for what a leaving claim has released.

        `disrupt` may wait for its place in the budgets, which is free once EC2 has been asked to terminate the instance;
        `provision` may wait, with pending pods, for its share of the NodePool's limits.
        """
        if before.is_disrupting and (after is None or not after.is_disrupting):
            request_run(self._run_requests, "place in the budgets free")
        if before.deletion is not None and before.reserved and (after is None or not after.reserved):
            self._wake_ups.send([wake_up(before.deletion.reason)])


def _takes_pods(step: steps.ClaimStep) -> bool:
    """Whether the step removes pods from their node regardless of protection."""
    return isinstance(step, steps.TerminateInstance) or (isinstance(step, steps.Drain) and bool(step.force))


def _was_released(facts: ClaimFacts, reader: NodeStateReader) -> bool:
    """Whether the node has lost its taint since it was read: its removal may be cancelled, and new pods may run on it.

    The claim itself cannot show this if its table was restored after it was read.
    """
    node = facts.node
    if node is None or DISRUPTED not in node.taints:
        return False
    reader.refresh(node.name)
    seen = reader.node(node.name)
    return seen is not None and DISRUPTED not in seen.node.taints


def _since(record: ClaimRecord) -> datetime:
    """Return when the claim's present phase began: the longer it takes, the less often a failing step is repeated."""
    return record.deletion.asked_at if record.deletion else record.phase_since
