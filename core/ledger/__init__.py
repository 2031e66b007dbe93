"""The ledger: inputs and decisions, stored for queries and replay (docs/adr/0070)."""

PUBLIC = ("compression", "encoding", "entry", "outcome", "reading")
"""Files that the rest of the project may import; the others are this package's inside."""
