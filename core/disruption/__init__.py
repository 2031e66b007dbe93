"""Which nodes may go now, and which should."""
