"""Which nodes go, and when: candidates, budgets, the methods that find commands, and what must hold to carry one out."""
