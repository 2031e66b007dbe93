"""The sweeps of `reconcile`, one subject per module: repairs of what no event reported, or no run completed."""
