"""Entry point of `disrupt`: runs once a minute, and when budget windows open or close."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.bootstrap import application
from lambdas.clock import deadline_of
from lambdas.messages import is_window
from lambdas.observability import reported
from lambdas.run_report import RunReport


@reported
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Decide which nodes should go."""
    app = application()
    deadline = deadline_of(context, app.adapters.clock)
    app.disruption.run(report, deadline=deadline, is_window=is_window(event))
    app.adapters.ledger.record_outcomes("disrupt", report.outcomes)
