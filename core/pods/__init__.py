"""What becomes of a pod: whether it waits for a node, whether it moves when its node goes, and what budgets say of that."""
