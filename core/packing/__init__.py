"""Chooses the machines to buy for a set of pods at the least cost. It knows vectors, prices and masks, and no Kubernetes.

A fluid linear program (`relaxation`) proves a lower bound and finds the best mix of types; guided rounding (`heuristics`)
turns it into whole machines. Where machines hold few pods, column generation (`column_generation`) chooses whole loads instead.
Large-neighbourhood search recovers what rounding lost. `optimize` runs these stages; results are rechecked in integers and
never cost more than the incumbent. numpy and HiGHS load slowly: callers import these modules only where there is something to
improve.
"""

PUBLIC = ("column_generation", "fleet_target", "heuristics", "optimize", "problem", "relaxation", "settings")
"""Files that the rest of the project may import; the others are this package's inside."""
