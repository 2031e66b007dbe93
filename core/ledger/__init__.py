"""The ledger: inputs and decisions, stored for queries and replay (docs/engineering/handbook/ledger.md)."""
