"""The model: inputs and results of decisions as frozen data, integers for resources and money, aware datetimes for time."""

PUBLIC = ("catalogue", "node_pool", "plan", "pod", "snapshot", "state_node")
"""Files that the rest of the project may import; the others are this package's inside."""
