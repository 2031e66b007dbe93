"""Plans placements and claims for pending pods by Karpenter's rules and the hard rules of the Kubernetes scheduler.

`schedule(snapshot)` plans once; a `Planner` answers many what-ifs over one snapshot, and explains unplaced pods. The planner is
imported on first use, so functions that need a part of this package do not load all of it at start.
"""

from typing import TYPE_CHECKING

from core.interpreter import lazily

if TYPE_CHECKING:
    from core.scheduling.planner import BarePlan, Planner, schedule
    from core.scheduling.results import FindReasons, SchedulingResults

__all__ = ["BarePlan", "FindReasons", "Planner", "SchedulingResults", "schedule"]

__getattr__ = lazily(
    __name__,
    {
        "BarePlan": "planner",
        "FindReasons": "results",
        "Planner": "planner",
        "SchedulingResults": "results",
        "schedule": "planner",
    },
)

PUBLIC = (
    "context",
    "explanation_text",
    "fleet_rows",
    "new_node",
    "planner",
    "pods",
    "primitives",
    "replanning",
    "results",
    "scheduler",
)
"""Files that the rest of the project may import; the others are this package's inside."""
