"""Skips rounds of `disrupt` or `reconcile` while no change is reported since the last one."""
