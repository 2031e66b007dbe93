"""What metadata and status of our objects say."""

from __future__ import annotations

from typing import Any

import pytest

from core.api.status import is_ready, is_stale, readiness


@pytest.mark.parametrize(
    ("status", "usable", "known"),
    [("True", True, True), ("False", False, False), ("Unknown", False, None), (None, False, False)],
)
def test_ready_is_true_false_or_not_known(status: str | None, usable: bool, known: bool | None) -> None:
    """A class whose status is not known yet is waited for; one that is not ready launches nothing."""
    obj = {"status": {"conditions": [{"type": "Other", "status": "True"}, {"type": "Ready", "status": status}]}}
    assert (is_ready(obj), readiness(obj)) == (usable, known)


@pytest.mark.parametrize("obj", [{}, {"status": None}, {"status": {"conditions": [{"type": "Other"}]}}])
def test_an_object_without_the_condition_is_not_known_to_be_ready(obj: dict[str, Any]) -> None:
    """The command line treats it as ready, a status says that it is waited for."""
    assert (is_ready(obj), readiness(obj)) == (None, None)


@pytest.mark.parametrize(
    ("generation", "observed", "stale"), [(2, 1, True), (2, 2, False), (None, 1, False), (2, None, False)]
)
def test_a_status_of_an_older_generation_is_stale(generation: int | None, observed: int | None, stale: bool) -> None:
    """A class that was edited is launched from only once its new status is there."""
    ready = {"type": "Ready", "status": "True", "observedGeneration": observed}
    assert is_stale({"metadata": {"generation": generation}, "status": {"conditions": [ready]}}) == stale
