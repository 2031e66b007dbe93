"""Condition NodeRegistrationHealthy."""

from __future__ import annotations

import pytest

from adapters.ports import TransientError
from core.brakes.breaker import Breaker
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.resync.reconciliation_resync import WITHOUT_PODS_EVERY
from tests.builders import NOW
from tests.fakes.lab import Lab


def registration(lab: Lab) -> dict[str, str]:
    """The condition NodeRegistrationHealthy after a round."""
    lab.reconcile()
    conditions = lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]["conditions"]
    return next(found for found in conditions if found["type"] == "NodeRegistrationHealthy")


def test_a_node_pool_reports_that_half_of_its_last_nodes_failed_until_it_changes(lab: Lab) -> None:
    """Karpenter's condition, from the results that the pool's breaker keeps."""
    assert registration(lab)["status"] == "True"
    lab.brakes.failed("default", "c2, RegistrationTimeout", NOW)
    assert registration(lab)["status"] == "True"
    lab.brakes.failed("default", "c3, RegistrationTimeout", NOW)
    told = registration(lab)
    assert (told["status"], told["reason"]) == ("False", "RegistrationFailed")
    assert told["message"] == "2 of the last 3 new nodes failed, the last: c3, RegistrationTimeout"
    lab.kubernetes.amend(kinds.NODE_POOLS, "default", {"metadata": {"generation": 7}})
    lab.clock.advance(seconds=WITHOUT_PODS_EVERY.total_seconds())
    assert registration(lab)["status"] == "Unknown"
    lab.brakes.joined("default", NOW)
    assert registration(lab)["status"] == "True"


def test_breakers_that_cannot_be_read_leave_the_condition_as_it_is(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    assert registration(lab)["status"] == "True"

    def throttled() -> tuple[Breaker, ...]:
        raise TransientError("dynamodb:Query", "throttled")

    monkeypatch.setattr(lab.brakes, "breakers", throttled)
    assert registration(lab)["status"] == "True"
