"""Keeps between two runs of the program what takes long to derive from what it reads: the same answers, sooner."""
