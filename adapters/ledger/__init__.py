"""Writes the ledger: decisions before they are carried out, and their outcomes."""
