"""The ledger: inputs and decisions, stored for queries and replay (docs/engineering/handbook/ledger.md)."""

PUBLIC = ("compression", "encoding", "entry", "outcome", "reading")
"""Files that the rest of the project may import; the others are this package's inside."""
