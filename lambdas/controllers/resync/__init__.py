"""Skips observations of `disrupt` and `reconcile` for a resync period while no change is reported."""
