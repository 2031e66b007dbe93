"""Messages of functions that a schedule starts, too: what uses them up, and what keeps them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from adapters.ports import DeniedError, PortError, TransientError
from core.errors import InvalidInputError
from lambdas.repeated_runs import again_after, repeated_by_schedule
from tests.fakes.world import FakeQueue

WOKEN = {"Records": [{"messageId": "1", "body": '{"wakeUp": "PodUnschedulable"}'}]}
SCHEDULED = {"source": "aws.scheduler"}
TIMEOUT = TransientError("kube:list pods", "timeout")


class Context:
    """Lambda's context of one invocation."""

    def __init__(self, request: str = "0001") -> None:
        self.aws_request_id = request


def answer(event: dict[str, Any], error: Exception | None = None, queue: FakeQueue | None = None) -> dict[str, Any]:
    """The answer to this event of a handler that raises this error."""

    @repeated_by_schedule(lambda: queue or FakeQueue())
    def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
        if error is not None:
            raise error
        return {"decisions": [], "batchItemFailures": [{"itemIdentifier": "1"}]}

    return handler(event, Context())  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [TIMEOUT, DeniedError("kube:list pods", "403")])
def test_a_failed_call_uses_its_messages_up(error: PortError) -> None:
    """Half an hour without API server would end in dead letters, and an alarm that stays on for two weeks."""
    assert answer(WOKEN, error) == {"batchItemFailures": []}


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (SCHEDULED, TIMEOUT),
        (WOKEN, ValueError("a defect")),
        (WOKEN, InvalidInputError("missing", subject="TABLE_NAME")),
    ],
)
def test_everything_else_is_an_error_of_the_function(event: dict[str, Any], error: Exception) -> None:
    """Otherwise, Lambda would count no failure, and a function that cannot even start would be noticed by nobody."""
    with pytest.raises(type(error)):
        answer(event, error)


def test_what_succeeds_is_answered_as_it_is() -> None:
    assert answer(WOKEN)["batchItemFailures"] == [{"itemIdentifier": "1"}]


def test_a_failed_scheduled_run_is_repeated_within_the_minute() -> None:
    """Calls that failed in the first 18 seconds of each minute left pods waiting for 34 minutes."""
    queue = FakeQueue()
    with pytest.raises(TransientError):
        answer(SCHEDULED, TIMEOUT, queue)
    assert len(queue.take()) == 1


@pytest.mark.parametrize(("event", "error"), [(SCHEDULED, DeniedError("ec2:x", "403")), (WOKEN, TIMEOUT)])
def test_nothing_else_is_repeated_here(event: dict[str, Any], error: PortError) -> None:
    queue = FakeQueue()
    with suppress(PortError):
        answer(event, error, queue)
    assert queue.take() == []


def test_runs_are_repeated_at_different_seconds_of_the_minute() -> None:
    delays = {again_after(f"request-{number}").total_seconds() for number in range(200)}
    assert (min(delays), max(delays)) == (20, 45)
    assert len(delays) == 26
