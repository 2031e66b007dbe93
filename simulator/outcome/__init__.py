"""The outputs of a run: decisions, costs, rows, the ledger, and the summary."""
