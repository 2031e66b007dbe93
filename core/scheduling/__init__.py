"""From pending pods to placements and claims: Karpenter's rules and the hard rules of the Kubernetes scheduler.

`schedule(snapshot)` plans once; a `Planner` answers many what-ifs over one snapshot, and explains what ruled out what.
The planner is imported when it is first asked for, so functions that need a part of this package do not start with all of it.
"""

from typing import TYPE_CHECKING

from core.lazy_names import lazily

if TYPE_CHECKING:
    from core.scheduling.planner import Planner, SchedulingResults, schedule

__all__ = ["Planner", "SchedulingResults", "schedule"]

__getattr__ = lazily(__name__, dict.fromkeys(__all__, "planner"))
