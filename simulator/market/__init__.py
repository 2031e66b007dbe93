"""The market that is built in: instance types, zones and prices of us-east-1, for the command line and the embedded AWS."""

PUBLIC = ("embedded", "node_facts")
"""Files that the rest of the project may import; the others are this package's inside."""
