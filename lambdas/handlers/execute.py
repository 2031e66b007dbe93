"""Entry point of `execute`: runs for work messages, and once a minute for what the table says is due."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.messages import is_woken
from adapters.observability import reported
from adapters.run_report import RunReport
from adapters.runtime import deadline_of
from lambdas.bootstrap import application, reads_cluster, starts
from lambdas.controllers.sweeps.due_work import due_work


@reported
@starts(lambda app: app.execution, reads_cluster)
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Take the next step of each claim or command that a message names, or whose step is late."""
    app = application()
    mirror, deadline = app.shared.node_claims, deadline_of(context, app.adapters.clock)
    if is_woken(event):
        app.execution.run(event["Records"], report, deadline=deadline)
    else:
        due = due_work(app.adapters.stores, app.adapters.clock.now())
        report.count("dueFromTable", len(due.claims) + len(due.commands))
        app.execution.run(due.records(), report, deadline=deadline)
        report.failed_messages.clear()
    mirror.write(report, deadline=deadline)
    app.adapters.ledger.record_outcomes("execute", report.outcomes)
