"""The ledger: what was seen and decided, kept so that it can be asked and repeated (docs/adr/0070)."""
