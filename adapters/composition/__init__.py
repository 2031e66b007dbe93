"""The adapters of one process, each created on first use."""

PUBLIC = ("cluster_api", "command_line", "functions")
"""Files that the rest of the project may import; the others are this package's inside."""
