"""From pending pods to placements and claims: Karpenter's rules and the hard rules of the Kubernetes scheduler.

`schedule(snapshot)` plans once; a `Planner` answers many what-ifs over one snapshot, and explains what ruled out what.
The planner is imported when it is first asked for, so functions that need a part of this package do not start with all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.scheduling.planner import Planner, SchedulingResults, schedule

__all__ = ["Planner", "SchedulingResults", "schedule"]


def __getattr__(name: str) -> Any:
    """Return a name of `__all__`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.planner"), name)
