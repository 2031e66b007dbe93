"""Which machines to buy for a set of pods at the least cost: vectors, prices and masks, nothing of Kubernetes.

A fluid linear program (`relaxation`) proves a lower bound and says which mix of types is best; guided rounding (`heuristics`)
turns it into whole machines. Where machines hold few pods, column generation (`column_generation`) chooses whole loads instead.
Large-neighbourhood search recovers what rounding lost. `optimize` runs these stages; results are rechecked in integers and
never cost more than the incumbent. numpy and HiGHS take a while to load: import the modules where something is to be improved.
"""
