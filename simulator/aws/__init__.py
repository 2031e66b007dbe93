"""The embedded AWS account: instances, fleets, prices, capacity, queues, the table, and the SDK that reaches them."""

PUBLIC = ("account", "installation", "queues")
"""Files that the rest of the project may import; the others are this package's inside."""
