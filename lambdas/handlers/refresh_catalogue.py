"""Woken once an hour."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.bootstrap import application
from lambdas.observability import logger, metrics, publish, told


@logger.inject_lambda_context
@metrics.log_metrics
@told
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Read instance types, zones and prices anew."""
    return publish(application().catalogue_refresh.refresh())
