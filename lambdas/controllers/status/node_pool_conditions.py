"""Conditions of a NodePool that depend on itself, its EC2NodeClass and the brakes."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.ports import JsonObject
from core.brakes.brake import Action, EngagedBrakes
from core.disruption.budgets.node_pool_budgets import unreadable
from core.model.node_pool import NodePool
from lambdas.controllers.status.status_writer import condition


def pool_readiness(pool: NodePool, ready_classes: Mapping[str, bool | None]) -> list[JsonObject]:
    """Return ValidationSucceeded, NodeClassReady, and Ready, which is the worse of both.

    Args:
        pool: The NodePool.
        ready_classes: Name of an EC2NodeClass → whether it is ready; None before its first status.
    """
    name = pool.node_class.name
    class_ready = ready_classes.get(name)
    awaited = class_ready is None and name in ready_classes
    found = [
        condition("ValidationSucceeded", "False" if pool.problem else "True", pool.problem),
        condition(
            "NodeClassReady",
            "True" if class_ready else "Unknown" if awaited else "False",
            "" if class_ready else f"EC2NodeClass {name!r} is missing or not ready",
        ),
    ]
    worst = next((c for c in found if c["status"] == "False"), next((c for c in found if c["status"] != "True"), None))
    return [*found, condition("Ready", worst["status"] if worst else "True", worst["message"] if worst else "")]


def disruption_paused(pool: NodePool, brakes: EngagedBrakes) -> JsonObject:
    """Return whether a brake or an unreadable budget prevents voluntary disruption in the pool, with advice."""
    found = (brakes.stopping(action, pool.name) for action in (Action.DISRUPT, Action.EXPIRE, Action.REPAIR))
    brake = next((brake for brake in found if brake is not None), None)
    if brake is not None:
        return condition("DisruptionPaused", "True", brake.message, reason=brake.kind)
    if problem := unreadable(pool):
        return condition("DisruptionPaused", "True", problem, reason="InvalidBudget")
    return condition("DisruptionPaused", "False", reason="NoBrakeEngaged")
