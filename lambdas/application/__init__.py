"""What one sandbox keeps between its invocations: adapters behind ports, and the controllers that use them."""
