"""Validates a changed EC2NodeClass before a launch: chooses launches to check with EC2 (DryRun), and keeps EC2's answers."""
