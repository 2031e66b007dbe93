"""Validates a changed EC2NodeClass before a launch: which launches EC2 is asked about (DryRun), and its answers."""
