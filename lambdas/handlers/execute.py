"""Entry point of `execute`: runs for work messages."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.observability import reported
from adapters.run_report import RunReport
from adapters.runtime import deadline_of
from lambdas.bootstrap import application, reads_cluster, starts


@reported
@starts(lambda app: app.execution, reads_cluster)
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Take the next step of each claim or command that a message names."""
    app = application()
    mirror, deadline = app.shared.node_claims, deadline_of(context, app.adapters.clock)
    app.execution.run(event["Records"], report, deadline=deadline)
    mirror.write(report, deadline=deadline)
    app.adapters.ledger.record_outcomes("execute", report.outcomes)
