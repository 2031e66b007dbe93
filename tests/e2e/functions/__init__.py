"""Lambda on this machine: the bundle, the Runtime API, a process per sandbox, and the event sources."""
