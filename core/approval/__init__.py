"""Commands that wait for a person: which, what they are told, and whether one still holds (docs/adr/0120)."""
