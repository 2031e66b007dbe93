"""Writes the ledger: decisions before they are carried out, and what became of them."""
