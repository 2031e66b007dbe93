"""Messages of functions that a schedule starts, too: a run in which a call failed uses them up (docs/adr/0191)."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from lambdas.messages import is_woken
from lambdas.ports import PortError

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from lambdas.runtime.observability import Handler


def repeated_by_schedule(handler: Handler) -> Handler:
    """Return a handler that answers SQS as after a success where a port failed; log and metrics say that the run failed.

    Its messages only start a run, and the schedule starts the next within a minute. Delivered again, they would end as dead
    letters after half an hour without API server, and their alarm would stay on after it. Other errors, time-outs and starts
    that fail still do: only a person can help then.
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
