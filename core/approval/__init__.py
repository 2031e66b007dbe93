"""Approval: which commands wait for a person, what is announced, and whether a command still holds (docs/adr/0120)."""
