"""Caches expensive results between runs of the program."""
