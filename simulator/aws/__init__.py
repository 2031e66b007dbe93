"""The embedded AWS account: instances, fleets, prices, capacity, queues, the table, and the SDK that reaches them."""
