"""When a round of `disrupt` or `reconcile` may be left out, because nothing tells of a change since the last one."""
