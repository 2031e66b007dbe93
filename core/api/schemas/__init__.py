"""Schemas of each kind: its fields, their allowed values, and the rules between them."""
