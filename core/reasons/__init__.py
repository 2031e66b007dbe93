"""Every reason code: closed enumerations, each member with its meaning and advice.

Plans, decisions, events and metrics use members, never literals. `docs/reference/reason-codes.md` is generated from here.
"""

PUBLIC = ("code", "groups", "nodes", "pods", "runs")
"""Files that the rest of the project may import; the others are this package's inside."""
