"""Entry point of `interrupt`: runs for EC2 and Health events."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.observability import reported
from adapters.run_report import RunReport
from lambdas.bootstrap import application, starts


@reported
@starts(lambda app: app.interruptions)
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Remove interrupted instances, and remember their offerings."""
    application().interruptions.run(event, report)
