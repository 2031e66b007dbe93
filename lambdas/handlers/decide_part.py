"""Entry point of `decide_part`: Step Functions' Distributed Map starts it for each part of a large cluster."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from adapters.messages import part_request
from adapters.observability import reported
from adapters.run_report import RunReport
from adapters.runtime import deadline_of
from lambdas.bootstrap import application, starts


@reported
@starts(lambda app: app.part_decisions)
def handler(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
    """Decide which nodes of the part should go."""
    app = application()
    deadline = deadline_of(context, app.adapters.clock)
    app.part_decisions.run(part_request(event), report, deadline=deadline)
