"""Classifies what EC2 does not launch: what each error code means for further launches, and how long they avoid it."""
