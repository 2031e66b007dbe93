"""How long a failed step waits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.ports import ConflictError, DeniedError, NotFoundError, PortError, ThrottledError, TransientError
from lambdas.controllers.batches.retries import retry_after

CALL = "kube:patch nodes"


@pytest.mark.parametrize(
    ("error", "delays"),
    [
        (ConflictError(CALL, "changed"), [1, 2, 4, 8, 16, 30]),
        (TransientError(CALL, "503"), [5, 10, 20, 30]),
        (NotFoundError(CALL, "gone"), [5, 10, 20, 30]),
        (ThrottledError(CALL, "429"), [5, 10, 20, 30]),
        (ThrottledError(CALL, "429", timedelta(seconds=40)), [40, 40]),
        (ThrottledError(CALL, "429", timedelta(seconds=2)), [5, 5]),
        (DeniedError(CALL, "forbidden"), [60, 60]),
    ],
)
def test_the_delay_doubles_up_to_half_a_minute(error: PortError, delays: list[int]) -> None:
    """A spot notice is two minutes; what another writer changed is read again at once; a person resolves a denial."""
    found = [retry_after(error, failures).total_seconds() for failures in range(len(delays))]
    assert found == delays


def test_a_thousand_failures_wait_no_longer() -> None:
    assert retry_after(ConflictError(CALL, "changed"), 1000) == timedelta(seconds=30)
