"""Approval: which commands wait for a person, what is announced, and whether a command still holds.

See docs/engineering/handbook/observe-and-approve.md.
"""

PUBLIC = ("announcement", "proposal", "verification")
"""Files that the rest of the project may import; the others are this package's inside."""
