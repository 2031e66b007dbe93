"""Entry point of `refresh_catalogue`: runs every five minutes; reads what is due."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.observability import reported
from adapters.run_report import RunReport
from lambdas.bootstrap import application, starts


@reported
@starts(lambda app: app.catalogue_refresh)
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Read instance types, zones, prices and quotas again."""
    app = application()
    quotas = app.quota_refresh.refresh(report)
    app.catalogue_refresh.refresh(report, is_used=quotas is not None and quotas.has_own_instances)
