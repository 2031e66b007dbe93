"""Decides which nodes are disrupted, and when: candidates, budgets, methods that find commands, and validation.

Its parts are imported on first use: functions that only read which pods were moved, or when budgets open, do not load the
planner in a cold start.
"""

from typing import TYPE_CHECKING, Final

from core.lazy_names import lazily

if TYPE_CHECKING:
    from core.disruption.budgets.window_schedules import window_schedules
    from core.disruption.conditions.expiration import expired
    from core.disruption.decision import disrupt, startable
    from core.disruption.validation.validation import Validation

__all__ = ["Validation", "disrupt", "expired", "startable", "window_schedules"]

_MODULES: Final = {
    "Validation": "validation.validation",
    "disrupt": "decision",
    "expired": "conditions.expiration",
    "startable": "decision",
    "window_schedules": "budgets.window_schedules",
}

__getattr__ = lazily(__name__, _MODULES)
