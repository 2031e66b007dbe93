"""Entry point of `disrupt`: runs once a minute, when budget windows open or close, and for messages about changes.

Step Functions has it join the decisions about the parts of a large cluster.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.messages import hops_of, is_parts_decided, is_window, is_woken, parts_run
from adapters.observability import reported
from adapters.run_report import RunReport
from adapters.runtime import deadline_of
from installation.settings import OFF
from lambdas.bootstrap import application, reads_cluster, starts
from lambdas.controllers.run_requests import repeated_by_schedule


@repeated_by_schedule(lambda: application().adapters.queues.run_requests)
@reported
@starts(lambda app: app.disruption, reads_cluster)
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Decide which nodes should go."""
    app = application()
    deadline = deadline_of(context, app.adapters.clock)
    if is_parts_decided(event):
        request, owner = parts_run(event), context.aws_request_id
        app.disruption.join(request, report, owner=owner, deadline=deadline)
        app.adapters.ledger.record_outcomes("disrupt", report.outcomes)
        return
    if app.adapters.settings.is_shadow:
        app.shadow_disruption.run(report, deadline=deadline)
        return
    app.disruption.run(
        report,
        owner=context.aws_request_id,
        deadline=deadline,
        is_window=is_window(event),
        is_woken=is_woken(event),
        hops=hops_of(event),
    )
    app.adapters.ledger.record_outcomes("disrupt", report.outcomes)
    if app.adapters.settings.forecast != OFF and not is_woken(event):
        app.forecast.run(report, deadline=deadline)
