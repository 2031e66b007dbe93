"""Which nodes go, and when: candidates, budgets, the methods that find commands, and what must hold to carry one out."""

from core.disruption.decision import disrupt, startable
from core.disruption.expiration import expired
from core.disruption.validation import validate
from core.disruption.windows import window_schedules

__all__ = ["disrupt", "expired", "startable", "validate", "window_schedules"]
