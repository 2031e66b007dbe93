"""Periodic maintenance: the rounds of `reconcile`, and the catalogue."""
