"""Rows by which runs of the functions exclude each other and share results."""
