"""From pending pods to placements and claims: Karpenter's rules and the hard rules of the Kubernetes scheduler.

`schedule(snapshot)` plans once; a `Planner` answers many what-ifs over one snapshot, and says what ruled out what.
"""

from core.scheduling.planner import Outcome, Planner, schedule

__all__ = ["Outcome", "Planner", "schedule"]
