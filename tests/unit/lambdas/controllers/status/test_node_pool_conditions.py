"""A NodePool is as ready as the worse of itself and its class, and says what pauses its disruption."""

from __future__ import annotations

import pytest

from core.brakes.brake import Brake, BrakeKind, EngagedBrakes
from core.model.node_pool import Budget, Disruption
from lambdas.controllers.status.node_pool_conditions import disruption_paused, pool_readiness
from tests.builders import a_pool

MISSING = "EC2NodeClass 'default' is missing or not ready"


@pytest.mark.parametrize(
    ("problem", "classes", "statuses", "message"),
    [
        ("", {"default": True}, ("True", "True", "True"), ""),
        ("", {"default": False}, ("True", "False", "False"), MISSING),
        ("", {"default": None}, ("True", "Unknown", "Unknown"), MISSING),
        ("", {"other": True}, ("True", "False", "False"), MISSING),
        ("spec is wrong", {"default": True}, ("False", "True", "False"), "spec is wrong"),
        ("spec is wrong", {"default": None}, ("False", "Unknown", "False"), "spec is wrong"),
    ],
)
def test_ready_is_the_worse_of_both(
    problem: str, classes: dict[str, bool | None], statuses: tuple[str, ...], message: str
) -> None:
    found = pool_readiness(a_pool(problem=problem), classes)
    assert [one["type"] for one in found] == ["ValidationSucceeded", "NodeClassReady", "Ready"]
    assert tuple(one["status"] for one in found) == statuses
    assert found[-1]["message"] == message
    assert [one["message"] for one in found[:2]] == [problem, "" if classes.get("default") else MISSING]


def paused(*brakes: Brake, nodes: str = "10%") -> tuple[str, str, str]:
    pool = a_pool(disruption=Disruption(budgets=(Budget(nodes=nodes),)))
    found = disruption_paused(pool, EngagedBrakes(brakes))
    return found["status"], found["reason"], found["message"]


def test_the_first_brake_that_stops_a_disruption_is_told() -> None:
    of_other = Brake(BrakeKind.PAUSE, "set it to run", node_pool="other")
    assert paused(of_other) == ("False", "NoBrakeEngaged", "")
    assert paused(Brake(BrakeKind.PAUSE, "set it to run")) == ("True", BrakeKind.PAUSE, "set it to run")


def test_a_brake_that_stops_expiry_alone_pauses_disruption_too() -> None:
    probe = Brake(BrakeKind.POOL_PROBE, "one at a time", node_pool="default")
    assert paused(probe) == ("True", BrakeKind.POOL_PROBE, "one at a time")


def test_an_unreadable_budget_closes_the_pool() -> None:
    status, reason, message = paused(nodes="many")
    assert (status, reason) == ("True", "InvalidBudget")
    assert message.startswith("spec.disruption.budgets[0]: ")


@pytest.mark.parametrize(
    ("ready", "expected"), [({}, "False"), ({"default": None}, "Unknown"), ({"default": False}, "False")]
)
def test_a_missing_class_is_an_error_and_a_new_one_is_not(ready: dict[str, bool | None], expected: str) -> None:
    """One is a mistake of its author, the other is over after a round."""
    conditions = {found["type"]: found["status"] for found in pool_readiness(a_pool(), ready)}
    assert (conditions["NodeClassReady"], conditions["Ready"]) == (expected, expected)
