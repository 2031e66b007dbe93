"""Carries out commands: validates each against a fresh snapshot, starts it, finishes it, or abandons it."""
