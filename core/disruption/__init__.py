"""Decides which nodes are disrupted, and when: candidates, budgets, methods that find commands, and validation."""

from core.disruption.budgets.window_schedules import window_schedules
from core.disruption.conditions.expiration import expired
from core.disruption.decision import disrupt, startable
from core.disruption.validation import Validation

__all__ = ["Validation", "disrupt", "expired", "startable", "window_schedules"]
