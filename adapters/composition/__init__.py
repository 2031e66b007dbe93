"""The adapters of one process, each created on first use."""
