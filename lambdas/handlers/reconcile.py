"""Entry point of `reconcile`: runs every two minutes."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.observability import reported
from adapters.run_report import RunReport
from adapters.runtime import deadline_of
from lambdas.bootstrap import application, reads_cluster, starts


@reported
@starts(lambda app: app.reconciliation, reads_cluster)
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Reconcile table, cluster and cloud."""
    app = application()
    mirror, deadline = app.shared.node_claims, deadline_of(context, app.adapters.clock)
    app.reconciliation.run(report, deadline=deadline)
    mirror.write(report, deadline=deadline)
