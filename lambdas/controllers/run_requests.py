"""Runs asked for at a time, and the counters of NodePools compared with their claims."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from adapters.messages import HOPS_MAX, is_woken, wake_up
from adapters.observability import logger
from adapters.ports import Clock, ConflictError, DeniedError, PortError, Queue
from adapters.run_report import RunReport
from adapters.store import ClaimStore, PoolUsage
from core.lifecycle.records import ClaimRecord
from core.model.values import quantity
from core.reasons.code import DecisionKind
from core.reasons.runs import RunReason
from installation.metric_names import CHAINS_CUT

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from adapters.observability import Handler

# Compares the counters of NodePools' limits and budgets with what their claims hold.
#
# Counters change in the same transaction as the claims; they differ only if rows are lost, restored or edited.


Mismatch = tuple[PoolUsage, PoolUsage]
"""A NodePool's counters as stored, and as computed from its claims."""


def mismatches(store: ClaimStore, seen: Iterable[ClaimRecord]) -> list[Mismatch]:
    """Return the counters that are wrong, by NodePool. Raises PortError.

    `seen` are the claims of an observation, with which the comparison takes one query. Only differing counters are read again,
    before the claims, so that a concurrent change of a claim also changes their version.
    """
    if not _wrong(store.usage(), seen):
        return []
    counted = store.usage()
    return _wrong(counted, store.all())


def recount(store: ClaimStore, mismatch: Mismatch, report: RunReport) -> None:
    """Correct a NodePool's counters, unless they have changed since; then the next comparison decides. Raises PortError."""
    before, after = mismatch
    try:
        store.recount(before, after)
    except ConflictError:
        return
    report.count("repairedUsage")
    message = f"{before.problem or f'counted {_amounts(before)}'}, its claims hold {_amounts(after)}"
    report.decide(DecisionKind.REPAIR, f"NodePool {before.node_pool}", RunReason.USAGE_RECOUNTED, message)


def _wrong(counted: Iterable[PoolUsage], claims: Iterable[ClaimRecord]) -> list[Mismatch]:
    by_counter = {usage.node_pool: usage for usage in counted}
    claims_of: dict[str, list[ClaimRecord]] = {}
    for claim in claims:
        for counter in claim.counters:
            claims_of.setdefault(counter, []).append(claim)
    pairs = [
        (by_counter.get(counter, PoolUsage(node_pool=counter)), _sum(counter, claims_of.get(counter, ())))
        for counter in sorted({*by_counter, *claims_of})
    ]
    return [(before, after) for before, after in pairs if before.problem or _holds(before) != _holds(after)]


def _sum(counter: str, claims: Iterable[ClaimRecord]) -> PoolUsage:
    records = tuple(claims)
    return PoolUsage(
        node_pool=counter,
        reserved=quantity.add(*(record.reserved_in(counter) for record in records)),
        disrupting=sum(record.is_disrupting for record in records if record.plan.node_pool == counter),
    )


def _holds(usage: PoolUsage) -> tuple[dict[str, int], int]:
    return {name: amount for name, amount in usage.reserved.items() if amount}, usage.disrupting


def _amounts(usage: PoolUsage) -> str:
    return f"{usage.reserved.get('nodes', 0)} nodes with {usage.reserved.get('cpu', 0)} millicores, {usage.disrupting} going"


SPACING: Final = timedelta(seconds=10)
"""The shortest time between two passes that messages start (Karpenter starts one every ten seconds)."""

WIDEST_SPACING: Final = timedelta(minutes=1)
"""Upper limit of the spacing.

From the second on, each pass in a row without commands doubles the spacing, so that a cluster whose pods change all day costs
little more than the schedule.
"""

PAUSE: Final = timedelta(seconds=45)
"""After this long without a pass the spacing is reset: scheduled runs are a minute apart."""

GATHERED: Final = timedelta(seconds=5)
"""Times within this span share one run."""

DELAY_MAX: Final = timedelta(minutes=15)
"""The longest delay of SQS; later times are requested by a later run."""


def request_run(queue: Queue, reason: str, delay: timedelta = timedelta(0), hops: int = 0) -> bool:
    """Request a run; return whether the queue accepted the request. The schedule compensates for a lost request."""
    try:
        queue.send([wake_up(reason, hops=hops)], delay=delay)
    except PortError as error:
        logger.warning("run could not be requested", extra={"problem": str(error)})
        return False
    return True


class RunRequests:
    """The requests of one sandbox. Sandboxes do not share them, so a run may be requested twice but is never missed."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._asked: datetime | None = None
        self._hops = 0
        """The hops of the next message."""

    def began(self, hops: int, report: RunReport) -> None:
        """Record that a run begins to which this many messages in a row have led: its own requests continue that chain."""
        self._hops = hops
        if hops > HOPS_MAX:
            report.count(CHAINS_CUT)

    def ask(self, reason: str, at: datetime) -> bool:
        """Request a run at this time unless one is requested by then already; return whether it was requested."""
        now = self._clock.now()
        if at - now > DELAY_MAX or (self._asked is not None and now < self._asked <= at + GATHERED):
            return False
        if self._hops > HOPS_MAX:  # the schedule begins a new chain
            return False
        if not request_run(self._queue, reason, max(timedelta(0), at - now), self._hops):
            return False
        self._asked = at
        return True


class SpacedRequests:
    """Requests of a function that receives many events: one at once, then one for all events of the next ten seconds."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._requests = RunRequests(queue, clock)
        self._clock = clock
        self._last: datetime | None = None

    def ask(self, reason: str) -> bool:
        """Request a run soon; return whether it was requested."""
        now = self._clock.now()
        at = now if self._last is None else max(now, self._last + SPACING)
        if not self._requests.ask(reason, at):
            return False
        self._last = at
        return True


class RunPace:
    """The earliest time at which a run that a message started may observe the cluster."""

    def __init__(self) -> None:
        self._ended_at: datetime | None = None
        self._known: datetime | None = None
        self._without_commands = 0

    def earliest(self, now: datetime) -> datetime:
        """Return that time: now, or some time after the last pass, unless a time is known at which something may change."""
        if self._ended_at is None:
            return now
        spacing = self._spacing()
        spaced = self._ended_at + spacing
        if self._known is not None and spacing == SPACING:  # passes that keep finding nothing are spaced in any case
            spaced = min(spaced, max(self._known, self._ended_at + GATHERED))
        return max(now, spaced)

    def awaits(self, moment: datetime | None) -> None:
        """Let the next run begin at this time, at least `GATHERED` after the last pass; None: no time is known."""
        self._known = moment

    def ended(self, now: datetime, *, has_commands: bool) -> None:
        """Record the end of a pass.

        The first one after a pause does not count: it records since when pods are unchanged.
        """
        is_first = self._ended_at is None or now - self._ended_at >= PAUSE
        self._without_commands = 0 if has_commands or is_first else self._without_commands + 1
        self._ended_at = now

    def _spacing(self) -> timedelta:
        return min(WIDEST_SPACING, SPACING * (1 << min(max(self._without_commands - 1, 0), 8)))


# Repeats failed runs of functions that a schedule also starts, and consumes their messages (docs/engineering/handbook/runs.md).


AGAIN_FROM: Final = 20
AGAIN_WITHIN: Final = 25
"""A failed scheduled run is repeated 20 to 45 seconds later. Schedules and Lambda's retries keep the same second of a minute,
which is the busiest of many accounts: what fails there fails each time."""


def repeated_by_schedule(own_queue: Callable[[], Queue]) -> Callable[[Handler], Handler]:
    """Return a decorator of a handler whose scheduled runs are repeated within the minute if a call fails.

    If a message started the run, it reports success to SQS; log and metrics report the failed run. Its messages only start a
    run, and the schedule starts the next one within a minute. If they were delivered again, half an hour without the API server
    would make them dead letters, whose alarm would stay on afterwards. Messages of runs with other errors, time-outs or failed
    starts are delivered again: only a person can help then.

    Args:
        own_queue: Returns the queue that starts the function.
    """

    def decorated(handler: Handler) -> Handler:
        @wraps(handler)
        def run(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
            try:
                return handler(event, context)
            except PortError as error:
                if is_woken(event):
                    return {"batchItemFailures": []}
                if not isinstance(error, DeniedError):
                    request_run(own_queue(), "a scheduled run failed", again_after(context.aws_request_id))
                raise

        return run

    return decorated


def again_after(request: str) -> timedelta:
    """Return when to repeat a run, a different second for each."""
    return timedelta(seconds=AGAIN_FROM + zlib.crc32(request.encode()) % (AGAIN_WITHIN + 1))
