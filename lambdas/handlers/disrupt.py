"""Woken once a minute, and where budget windows open or close."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.bootstrap import application
from lambdas.decisions import Outcome
from lambdas.messages import is_window
from lambdas.observability import logger, metrics, publish, told


@logger.inject_lambda_context
@metrics.log_metrics
@told
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Decide which nodes should go."""
    outcome = Outcome()
    application().disruption.run(outcome, is_window=is_window(event))
    return publish(outcome)
