"""Condition LaunchDenied of NodePools and EC2NodeClasses: what EC2 does not launch, why, and when it is retried."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC
from typing import Final

from adapters.ports import JsonObject
from core.launch.denials.denial import LaunchDenial
from lambdas.controllers.status.status_writer import condition

LAUNCH_DENIED: Final = "LaunchDenied"
"""A condition for people only: Ready does not change, since a launch may succeed at any moment."""

_NOT_IN_REASONS: Final = re.compile("[^A-Za-z0-9_]+")
"""Kubernetes does not accept a dot in a condition's reason."""


def denied_launches(node_class: str, denials: Iterable[LaunchDenial]) -> JsonObject:
    """Return the condition for an EC2NodeClass and its NodePools. Denials that a person can resolve come first."""
    engaged = [found for found in denials if found.node_class == node_class and found.is_engaged]
    if not engaged:
        return condition(LAUNCH_DENIED, "False", reason="NotDenied")
    ordered = sorted(engaged, key=lambda found: (found.names_capacity(), found.code))
    message = "; ".join(f"{found.explanation()}{_again(found)}" for found in ordered)
    return condition(LAUNCH_DENIED, "True", message, reason=_NOT_IN_REASONS.sub("_", ordered[0].code).strip("_"))


def _again(denial: LaunchDenial) -> str:
    if denial.until is None:
        return ""
    return f" One launch retries after {denial.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}."
