"""The DynamoDB table: records, leases, counters and recent launch refusals."""

PUBLIC = ("claims", "commands", "coordination", "launch_memory", "table")
"""Files that the rest of the project may import; the others are this package's inside."""
