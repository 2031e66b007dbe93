"""What `reconcile` puts right, one kind of thing a module: what no event tells, and what an event told but nobody did."""
