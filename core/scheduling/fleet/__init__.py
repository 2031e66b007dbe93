"""Converts the running fleet to the arrays of the keep-or-drain program."""
