"""Decides which nodes are disrupted, and when: candidates, budgets, methods that find commands, and validation.

Its parts are imported on first use: functions that only read which pods were moved, or when budgets open, do not load the
planner in a cold start.
"""

from typing import TYPE_CHECKING, Final

from core.interpreter import lazily

if TYPE_CHECKING:
    from core.disruption.budgets import window_schedules
    from core.disruption.decision import disrupt, startable
    from core.disruption.expiration import expired
    from core.disruption.validation import Validation

__all__ = ["Validation", "disrupt", "expired", "startable", "window_schedules"]

_MODULES: Final = {
    "Validation": "validation",
    "disrupt": "decision",
    "expired": "expiration",
    "startable": "decision",
    "window_schedules": "budgets",
}

__getattr__ = lazily(__name__, _MODULES)

PUBLIC = (
    "budget_openings",
    "budgets",
    "command",
    "consolidation_nodes",
    "decision",
    "deletion_costs",
    "disruption_pass",
    "drift",
    "expiration",
    "gap",
    "move_history",
    "node_health",
    "resync",
    "shrink_limit",
    "static_capacity",
    "validation",
)
"""Files that the rest of the project may import; the others are this package's inside."""
