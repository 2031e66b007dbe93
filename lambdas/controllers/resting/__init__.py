"""Skips rounds of `disrupt` or `reconcile` while no change has been reported since the last one."""
