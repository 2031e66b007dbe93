"""Commands that wait for a person: which, what the announcement says, and whether one still holds (docs/adr/0120)."""
