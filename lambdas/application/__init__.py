"""State that a sandbox keeps between invocations: the controllers, over the adapters that they use."""

PUBLIC = ("controllers",)
"""Files that the rest of the project may import; the others are this package's inside."""
