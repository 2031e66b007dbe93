"""The one logger and the one set of metrics of a sandbox (CloudWatch embedded metric format: no call, no delay).

Both take the service's name, which is a dimension of every metric, from POWERTOOLS_SERVICE_NAME: one for each cluster.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from threading import Lock, Timer
from typing import Any, Final, NamedTuple

from aws_lambda_powertools import Logger, Metrics, single_metric
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.ports import reason_of
from adapters.run_report import Decision, RunReport
from core.reasons.code import ClaimReason
from core.reasons.pods import EvictionReason
from core.reasons.runs import DrainReason, FailureReason
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

# Reads what a refused call lacks from the answer of AWS or the API server: the action, and the resource that it is about.


NOT_NAMED: Final = "not named"
"""The resource of an answer that names neither a resource nor a code; CloudWatch takes no empty dimension."""

LENGTH_MAX: Final = 250
"""Characters of a dimension's value; CloudWatch takes 1,024."""

_OF_AWS: Final = re.compile(r"not authorized to perform: ([\w-]+:\w+)(?:.*? on resource: (\S+))?", re.DOTALL)
_OF_KUBERNETES: Final = re.compile(r'cannot (\w+) resource "([\w./-]+)"(?: in API group "([\w.-]*)")?')
_CALL: Final = re.compile(r"[a-z][\w-]*:[\w/ -]+")
_CODE: Final = re.compile(r"(?:\w+ \()?([A-Z][A-Za-z]+(?:\.[A-Z][A-Za-z]+)*): ")
"""The code of AWS's answer, behind our reason if it is among the errors of a fleet."""

_PARTS_MAX: Final[Mapping[str, int]] = {"ec2": 1, "iam:instance-profile": 4, "s3": 3, "scheduler": 2}
"""Service, or service and kind, whose objects come and go → the most parts of a resource's path that are reported.

The rest is `*`, as in the policies: otherwise a refused action would have as many metrics as there are instances, decisions in
the ledger, or windows of budgets. Of a key in S3 the bucket and two folders remain.
"""

_NOT_ASCII: Final = re.compile(r"[^\x21-\x7e]+")


class RefusedCall(NamedTuple):
    """What a permission is missing for: an action, and a resource."""

    action: str
    resource: str


class MissingPermissions:
    """What the calls of a run were not permitted, whatever becomes of their errors: no decision reports those that are handled.

    Errors are noted where answers are translated, in any thread. Those of optional calls, and of calls whose failure has an
    alarm of its own, are left out where they are handled.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._calls: Counter[RefusedCall] = Counter()

    def begin(self) -> None:
        """Forget what an earlier run noted."""
        with self._lock:
            self._calls.clear()

    def note(self, message: str) -> None:
        """Count the refused call if the message of its error names a permission."""
        if _OF_AWS.search(message) or _OF_KUBERNETES.search(message):
            with self._lock:
                self._calls[refused_call(message)] += 1

    def leave_out(self, error: Exception) -> None:
        """Take one note back: nobody need permit the call, or its failure is the cause of another alarm."""
        with self._lock:
            self._calls -= Counter([refused_call(str(error))])

    def calls(self) -> Counter[RefusedCall]:
        """Return how often each was refused."""
        with self._lock:
            return self._calls.copy()


MISSING_PERMISSIONS: Final = MissingPermissions()
"""Those of the sandbox's present run."""


def refused_call(message: str) -> RefusedCall:
    """Return what an error's message says is refused; without a missing permission in it, the call, and AWS's code."""
    by_aws = _OF_AWS.search(message)
    if by_aws:
        return _named(by_aws[1], _bounded((by_aws[2] or "").strip("\"'.,;")))
    by_kubernetes = _OF_KUBERNETES.search(message)
    if by_kubernetes:
        verb, resource, group = by_kubernetes.groups()
        return _named(f"kube:{verb}", f"{resource}.{group}" if group else resource)
    call = message.partition(": ")[0]
    if not _CALL.fullmatch(call):
        return _named("", "")
    code = _CODE.match(message, len(call) + 2)
    return _named(call, code[1] if code else "")


def _bounded(arn: str) -> str:
    """Return the ARN without what distinguishes one object from the next of its kind."""
    *before, resource = arn.split(":", 5)
    if len(before) < 5:
        return arn
    kind, *below = resource.split("/")
    most = _PARTS_MAX.get(before[2]) or _PARTS_MAX.get(f"{before[2]}:{kind}")
    if not most or not below:
        return arn
    return ":".join((*before, "/".join((kind, *below[:-1][: most - 1], "*"))))


def _named(action: str, resource: str) -> RefusedCall:
    text = _NOT_ASCII.sub(" ", resource)[:LENGTH_MAX].strip()
    return RefusedCall(_NOT_ASCII.sub(" ", action)[:LENGTH_MAX].strip() or NOT_NAMED, text or NOT_NAMED)


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
    alarms: Counter[str] = Counter()
    for alarm, names in ALARMS.items():
        causes = {name: counts[name] for name in names if counts[name]}
        if causes:
            logger.warning("alarming", extra={"alarm": alarm, "causes": causes})
            alarms[alarm_count(alarm)] = sum(causes.values())
    return alarms


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
