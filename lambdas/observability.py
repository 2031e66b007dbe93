"""The one logger and the one set of metrics of a sandbox (CloudWatch embedded metric format: no call, no delay).

Both take the service's name, which is a dimension of every metric, from POWERTOOLS_SERVICE_NAME: one for each cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.decisions import Decision, Outcome
from lambdas.metric_names import in_cloudwatch

NAMESPACE: Final = "Fleetwright"

Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]

logger = Logger()
metrics = Metrics(namespace=NAMESPACE)


def told(handler: Handler) -> Handler:
    """Let a run that fails say why in one line of the log, and count it: Lambda's own metric says only that it failed."""

    @wraps(handler)
    def run(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        try:
            return handler(event, context)
        except Exception as error:
            kind = type(error).__name__
            logger.error("run failed", extra={"reason": kind, "detail": str(error)})  # noqa: TRY400 - Lambda logs where
            metrics.add_metric(name="FailedRuns", unit=MetricUnit.Count, value=1)
            metrics.add_metric(name=f"FailedRuns{kind}", unit=MetricUnit.Count, value=1)
            raise

    return run


def publish(outcome: Outcome) -> dict[str, Any]:
    """Log every decision, count decisions by kind and what else the run counted, and give the handler's answer."""
    for decision in outcome.decisions:
        logger.info(
            "decision",
            extra={
                "kind": decision.kind,
                "subject": decision.subject,
                "reason": decision.reason,
                "detail": decision.message,
            },
        )
    for name, value in sorted({**_by_kind(outcome.decisions), **_by_name(outcome.counts)}.items()):
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)
    metrics.add_metric(name="Runs", unit=MetricUnit.Count, value=1)
    return outcome.to_response()


def _by_kind(decisions: Iterable[Decision]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for decision in decisions:
        name = f"Decisions{decision.kind.capitalize()}"
        counted[name] = counted.get(name, 0) + 1
    return counted


def _by_name(counts: Mapping[str, int]) -> dict[str, int]:
    return {in_cloudwatch(name): value for name, value in counts.items()}
