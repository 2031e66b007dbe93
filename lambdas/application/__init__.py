"""State that a sandbox keeps between invocations: adapters behind ports, and the controllers that use them."""
