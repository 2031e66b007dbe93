"""The ledger: inputs and decisions, stored for queries and replay (docs/adr/0070)."""
