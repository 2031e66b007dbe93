"""Woken by the EKS audit log."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.bootstrap import application
from lambdas.decisions import Outcome
from lambdas.observability import logger, metrics, publish, told


@logger.inject_lambda_context
@metrics.log_metrics
@told
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Turn audit events that may mean work into one wake-up."""
    outcome = Outcome()
    application().audit_log.run(event, outcome)
    return publish(outcome)
