"""The embedded world: virtual time, a simulated cluster, moto for AWS, and an event pump between them and the real handlers."""
