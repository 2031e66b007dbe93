"""Woken by EC2 and Health events."""

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
    """Let interrupted instances go, and remember their offerings."""
    outcome = Outcome()
    application().interruptions.run(event, outcome)
    return publish(outcome)
