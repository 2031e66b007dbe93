"""Checks a changed EC2NodeClass before anything is launched from it: which launches EC2 is asked about, and what it said."""
