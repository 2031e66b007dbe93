"""The one logger and the one set of metrics of a sandbox (CloudWatch embedded metric format: no call, no delay).

Both take the service's name, which is a dimension of every metric, from POWERTOOLS_SERVICE_NAME: one for each cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final

from aws_lambda_powertools import Logger, Metrics, single_metric
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.decisions import Decision, Outcome
from lambdas.metric_names import DENIED_CALLS, FAILED_RUNS, in_cloudwatch

NAMESPACE: Final = "Fleetwright"
DENIED: Final = ("DeniedError", "LaunchDenied")
"""Reasons of decisions that a refused permission, a quota or a request that cannot be is behind."""

Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]
Work = Callable[[dict[str, Any], LambdaContext, Outcome], None]

logger = Logger()
metrics = Metrics(namespace=NAMESPACE)


def told(work: Work) -> Handler:
    """The handler that does this work and tells of it, whether the run succeeds or fails.

    Each decision is logged when it is made, so one that is cut off at its time-out has told of those until then; counts become
    metrics at the end. A run that fails says why in one line and is counted: Lambda's own metric says only that it failed.
    """

    @logger.inject_lambda_context
    @wraps(work)
    def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        outcome = Outcome(_log)
        denied: list[str] = []
        try:
            work(event, context, outcome)
        except Exception as error:
            kind = type(error).__name__
            logger.error("run failed", extra={"reason": kind, "detail": str(error)})  # noqa: TRY400 - Lambda logs where
            outcome.count(FAILED_RUNS)
            outcome.count(f"{FAILED_RUNS}{kind}")
            denied += [str(error)] if kind in DENIED else []
            raise
        finally:
            denied += [decision.message for decision in outcome.decisions if decision.reason in DENIED]
            _count(outcome, denied)
            if metrics.provider.metric_set:
                metrics.flush_metrics()
        return outcome.to_response()

    return handler


def _log(decision: Decision) -> None:
    logger.info(
        "decision",
        extra={
            "kind": decision.kind,
            "subject": decision.subject,
            "reason": decision.reason,
            "detail": decision.message,
        },
    )


def _count(outcome: Outcome, denied: Iterable[str]) -> None:
    """Make metrics of what was counted. Zeros are not written: each metric costs by the hour in which it is."""
    calls = Counter(message.partition(": ")[0] for message in denied)
    counts = Counter(f"decisions{decision.kind.capitalize()}" for decision in outcome.decisions)
    counts.update(outcome.counts)
    counts[DENIED_CALLS] += calls.total()
    for name, value in sorted(counts.items()):
        if value:
            metrics.add_metric(name=in_cloudwatch(name), unit=MetricUnit.Count, value=value)
    for call, number in sorted(calls.items()):
        with single_metric(
            name=in_cloudwatch(DENIED_CALLS),
            unit=MetricUnit.Count,
            value=number,
            namespace=NAMESPACE,
            default_dimensions={"service": str(metrics.service)},
        ) as metric:
            metric.add_dimension("action", call[:100])
