"""Entry point of `watch_audit_log`: runs for deliveries of the EKS audit log."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.observability import reported
from adapters.run_report import RunReport
from lambdas.bootstrap import application, starts


@reported
@starts(lambda app: app.audit_log)
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Turn audit events that may mean work into one wake-up."""
    application().audit_log.run(event, report)
