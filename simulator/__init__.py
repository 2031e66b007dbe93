"""The embedded world: virtual time, a simulated cluster, a simulated AWS, and an event pump between them and the handlers."""
