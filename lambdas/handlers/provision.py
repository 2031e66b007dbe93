"""Entry point of `provision`: runs for pending pods, and once a minute."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.messages import WokenBy, chain_ends_at, hops_of, woken_by
from adapters.observability import reported
from adapters.run_report import RunReport
from adapters.runtime import deadline_of
from lambdas.bootstrap import application, reads_cluster, starts
from lambdas.controllers.run_requests import repeated_by_schedule


@repeated_by_schedule(lambda: application().adapters.queues.wake_ups)
@reported
@starts(lambda app: app.provisioning, reads_cluster)
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Launch what pending pods need."""
    app = application()
    until, hops = chain_ends_at(event, app.adapters.clock.now()), hops_of(event)
    if app.adapters.settings.is_shadow:
        app.shadow_provisioning.run(report, until=until, hops=hops)
        return
    mirror, deadline = app.shared.node_claims, deadline_of(context, app.adapters.clock)
    cause = woken_by(event)
    if cause is WokenBy.NEWS:
        app.provisioning.record_change()
    app.provisioning.run(report, owner=context.aws_request_id, deadline=deadline, until=until, cause=cause, hops=hops)
    mirror.write(report, deadline=deadline)
    app.adapters.ledger.record_outcomes("provision", report.outcomes)
