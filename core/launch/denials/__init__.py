"""Classifies EC2's launch failures: what each error code means for further launches, and how long they avoid it."""
