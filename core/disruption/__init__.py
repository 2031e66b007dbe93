"""Which nodes go, and when: candidates, budgets, the methods that find commands, and what must hold to carry one out."""

from core.disruption.decision import disrupt, startable
from core.disruption.expiration import expired
from core.disruption.validation import Validation
from core.disruption.windows import window_schedules

__all__ = ["Validation", "disrupt", "expired", "startable", "window_schedules"]
