"""From pending pods to placements and claims: Karpenter's rules and the hard rules of the Kubernetes scheduler.

`schedule(snapshot)` plans once; a `Planner` answers many what-ifs over one snapshot, and explains what ruled out what.
"""

from core.scheduling.planner import Planner, SchedulingResults, schedule

__all__ = ["Planner", "SchedulingResults", "schedule"]
