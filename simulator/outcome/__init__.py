"""What a run leaves: decisions, costs, rows, the ledger, and the summary."""
