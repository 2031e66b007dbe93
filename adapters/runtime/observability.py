"""The one logger and the one set of metrics of a sandbox (CloudWatch embedded metric format: no call, no delay).

Both take the service's name, which is a dimension of every metric, from POWERTOOLS_SERVICE_NAME: one for each cluster.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from threading import Lock, Timer
from typing import Any, Final

from aws_lambda_powertools import Logger, Metrics, single_metric
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.ports import reason_of
from adapters.run_report import Decision, RunReport
from adapters.runtime.refused_calls import MISSING_PERMISSIONS, RefusedCall, refused_call
from core.reasons.claim import ClaimReason
from core.reasons.drain import DrainReason, EvictionReason
from core.reasons.run import FailureReason
from core.version import VERSION
from installation.metric_names import (
    ALARMS,
    DENIED_CALLS,
    FAILED_RUNS,
    METRICS,
    NAMESPACE,
    UNPERMITTED_CALLS,
    alarm_count,
    in_cloudwatch,
)

DENIED: Final[tuple[str, ...]] = (
    FailureReason.DENIED,
    ClaimReason.LAUNCH_DENIED,
    EvictionReason.DENIED,
    DrainReason.SURGE_DENIED,
)
"""Reasons of decisions caused by a refused permission, a quota or an impossible request."""

LAST_SECONDS: Final = 2.0
"""Counts are written this long before the timeout: a line takes milliseconds, but a busy solver delays other threads."""

DECISIONS_MAX: Final = 20
"""The most decisions that a line of metrics names: a batch of `execute` carries out those of a hundred claims."""

TIMED_OUT: Final = "TimedOut"
"""Count of a run that is cut off; a run that ends in its last seconds is counted too."""

Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]
Work = Callable[[dict[str, Any], LambdaContext, RunReport], None]

_PUBLISHED: Final = os.environ.get("AWS_LAMBDA_FUNCTION_VERSION", "")
RUNNING: Final = f"{VERSION}+{_PUBLISHED}" if _PUBLISHED.isdigit() else VERSION
"""The release and Lambda's version number: two versions share the work during an update."""

CODE: Final = os.environ.get("CODE_DIGEST", "")
"""Digest of `core` as it was packaged: a bundle has no sources to compute it from."""

logger = Logger(version=RUNNING)
metrics = Metrics(namespace=NAMESPACE)


def reported(work: Work) -> Handler:
    """Return a handler that runs this work and reports on it, whether the run succeeds or fails.

    Each decision is logged when it is made, and counts become metrics at the end, or shortly before the run is cut off. A
    failing run logs the reason in one line and is counted: Lambda's own metric has no reason. Missing permissions become
    metrics though the work handles their errors.
    """

    @logger.inject_lambda_context
    @wraps(work)
    def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        report = RunReport(_log)
        counts = _Counts(report)
        MISSING_PERMISSIONS.begin()
        with _before_the_end(context, counts.write_at_time_out):
            try:
                work(event, context, report)
            except Exception as error:
                kind = type(error).__name__
                logger.error("run failed", extra={"reason": kind, "detail": str(error)})  # noqa: TRY400 - Lambda logs where
                report.count(FAILED_RUNS)
                report.count(f"{FAILED_RUNS}{kind}")
                counts.denied += [str(error)] if reason_of(error) in DENIED else []
                raise
            finally:
                counts.write()
        return report.to_response()

    return handler


class _Cut:
    """Whether invocations are watched for their timeout."""

    is_watched = True


@contextmanager
def unwatched() -> Iterator[None]:
    """Disable the watch for timeouts within this context.

    For embedders with virtual time: the watch counts real seconds, so a slow machine would change a run's report.
    """
    before, _Cut.is_watched = _Cut.is_watched, False
    try:
        yield
    finally:
        _Cut.is_watched = before


@contextmanager
def _before_the_end(context: LambdaContext, write: Callable[[], None]) -> Iterator[None]:
    """Call `write` within this context if the invocation comes close to its timeout, after which nothing runs."""
    if not _Cut.is_watched:
        yield
        return
    timer = Timer(max(context.get_remaining_time_in_millis() / 1000 - LAST_SECONDS, 0), write)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Counts:
    """The counts of a run, written as metrics; a second write contains only what was added.

    Attributes:
        denied: Messages of refused calls that no decision reports.
    """

    def __init__(self, report: RunReport) -> None:
        self._report = report
        self._lock = Lock()
        self._written: Counter[str] = Counter()
        self._written_calls: Counter[tuple[str, RefusedCall]] = Counter()
        self.denied: list[str] = []

    def write_at_time_out(self) -> None:
        """Write the counts so far and a failed run: no later code could report it."""
        self._report.count(FAILED_RUNS)
        self._report.count(f"{FAILED_RUNS}{TIMED_OUT}")
        self.write()

    def write(self) -> None:
        """Write the new counts. Zeros are skipped: each metric is priced by the hours in which it is written."""
        with self._lock:
            decisions = tuple(self._report.decisions)
            messages = [*self.denied, *(decision.message for decision in decisions if decision.reason in DENIED)]
            denied = Counter(map(refused_call, messages))
            refused = denied + Counter(map(refused_call, self._report.refused))
            handled = {call: number for call, number in MISSING_PERMISSIONS.calls().items() if call not in refused}
            counts = Counter(f"decisions{decision.kind.capitalize()}" for decision in decisions)
            counts.update(dict(self._report.counts))
            counts.update({DENIED_CALLS: denied.total(), UNPERMITTED_CALLS: sum(handled.values())})
            calls = Counter({(DENIED_CALLS, call): number for call, number in refused.items()})
            calls.update({(UNPERMITTED_CALLS, call): number for call, number in handled.items()})
            ids = dict.fromkeys(decision.decision_id for decision in decisions if decision.decision_id)
            _write(counts - self._written, calls - self._written_calls, list(ids)[:DECISIONS_MAX])
            self._written, self._written_calls = counts, calls


def _write(counts: Counter[str], calls: Counter[tuple[str, RefusedCall]], decisions: Sequence[str]) -> None:
    """Write nonzero counts as metrics or log them, and report the causes of alarms and refused calls.

    `calls` are counted by metric and call. `decisions` are the ids of the decisions from which the counts come: a metric's
    line in the log leads to them.
    """
    counts = counts + _alarming(counts)
    unpublished = {name: value for name, value in sorted(counts.items()) if name not in METRICS and value}
    if unpublished:
        logger.info("counted", extra={"counts": unpublished})
    for name, value in sorted(counts.items()):
        if name in METRICS:
            metrics.add_metric(name=in_cloudwatch(name), unit=METRICS[name].unit, value=value)
    for (count, call), number in sorted(calls.items()):
        with single_metric(
            name=in_cloudwatch(count),
            unit=MetricUnit.Count,
            value=number,
            namespace=NAMESPACE,
            default_dimensions={"service": str(metrics.service)},
        ) as metric:
            metric.add_dimension("action", call.action)
            metric.add_dimension("resource", call.resource)
    if metrics.provider.metric_set:
        metrics.add_metadata(key="version", value=RUNNING)
        if decisions:
            metrics.add_metadata(key="decisions", value=list(decisions))
        metrics.flush_metrics()


def _alarming(counts: Counter[str]) -> Counter[str]:
    """Return the sum of each alarm's counts, and log the counts, so that the person on call finds the cause."""
    found: Counter[str] = Counter()
    for alarm, names in ALARMS.items():
        causes = {name: counts[name] for name in names if counts[name]}
        if causes:
            logger.warning("alarming", extra={"alarm": alarm, "causes": causes})
            found[alarm_count(alarm)] = sum(causes.values())
    return found


def _log(decision: Decision) -> None:
    logger.info(
        "decision",
        extra={
            "kind": decision.kind,
            "subject": decision.subject,
            "reason": decision.reason,
            "detail": decision.message,
            **({"decision": decision.decision_id} if decision.decision_id else {}),
        },
    )
