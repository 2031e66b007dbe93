"""Woken every two minutes."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.bootstrap import application
from lambdas.clock import deadline_of
from lambdas.decisions import Outcome
from lambdas.observability import logger, metrics, publish, told


@logger.inject_lambda_context
@metrics.log_metrics
@told
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Bring table, cluster and cloud together again."""
    app, outcome = application(), Outcome()
    app.reconciliation.run(outcome, deadline=deadline_of(context, app.clock))
    return publish(outcome)
