"""State that a sandbox keeps between invocations: the controllers, over the adapters that they use."""
