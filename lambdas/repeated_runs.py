"""Consumes the messages of failed runs of functions that a schedule also starts (docs/engineering/handbook/runs.md)."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from adapters.messages import is_woken
from adapters.ports import PortError

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from adapters.observability import Handler


def repeated_by_schedule(handler: Handler) -> Handler:
    """Return a handler that reports success to SQS if a port fails; log and metrics report the failed run.

    Its messages only start a run, and the schedule starts the next one within a minute. If they were delivered again, half an
    hour without the API server would make them dead letters, whose alarm would stay on afterwards. Messages of runs with other
    errors, time-outs or failed starts are delivered again: only a person can help then.
    """

    @wraps(handler)
    def run(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        try:
            return handler(event, context)
        except PortError:
            if not is_woken(event):
                raise
            return {"batchItemFailures": []}

    return run
