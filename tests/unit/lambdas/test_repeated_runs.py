"""Messages of functions that a schedule starts, too: what uses them up, and what keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.ports import DeniedError, PortError, TransientError
from core.errors import InvalidInputError
from lambdas.repeated_runs import repeated_by_schedule

WOKEN = {"Records": [{"messageId": "1", "body": '{"wakeUp": "PodUnschedulable"}'}]}
SCHEDULED = {"source": "aws.events"}
TIMEOUT = TransientError("kube:list pods", "timeout")


def answer(event: dict[str, Any], error: Exception | None = None) -> dict[str, Any]:
    """The answer to this event of a handler that raises this error."""

    @repeated_by_schedule
    def handler(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
        if error is not None:
            raise error
        return {"decisions": [], "batchItemFailures": [{"itemIdentifier": "1"}]}

    return handler(event, None)  # type: ignore[arg-type]


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
