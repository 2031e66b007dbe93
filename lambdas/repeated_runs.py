"""Repeats failed runs of functions that a schedule also starts, and consumes their messages.

See docs/engineering/handbook/runs.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from adapters.messages import is_woken
from adapters.ports import DeniedError, PortError, Queue
from lambdas.controllers.run_requests import request_run

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from adapters.observability import Handler

AGAIN_FROM: Final = 20
AGAIN_WITHIN: Final = 25
"""A failed scheduled run is repeated 20 to 45 seconds later. Schedules and Lambda's retries keep the same second of a minute,
which is the busiest of many accounts: what fails there fails each time."""


def repeated_by_schedule(own_queue: Callable[[], Queue]) -> Callable[[Handler], Handler]:
    """Return a decorator of a handler whose scheduled runs are repeated within the minute if a call fails.

    If a message started the run, it reports success to SQS; log and metrics report the failed run. Its messages only start a
    run, and the schedule starts the next one within a minute. If they were delivered again, half an hour without the API server
    would make them dead letters, whose alarm would stay on afterwards. Messages of runs with other errors, time-outs or failed
    starts are delivered again: only a person can help then.

    Args:
        own_queue: Returns the queue that starts the function.
    """

    def decorated(handler: Handler) -> Handler:
        @wraps(handler)
        def run(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
            try:
                return handler(event, context)
            except PortError as error:
                if is_woken(event):
                    return {"batchItemFailures": []}
                if not isinstance(error, DeniedError):
                    request_run(own_queue(), "a scheduled run failed", again_after(context.aws_request_id))
                raise

        return run

    return decorated


def again_after(request: str) -> timedelta:
    """Return when to repeat a run, a different second for each."""
    return timedelta(seconds=AGAIN_FROM + zlib.crc32(request.encode()) % (AGAIN_WITHIN + 1))
