"""Kubernetes objects from the API server or from files, and their translation into `core.model`."""

PUBLIC = (
    "admission",
    "assemble",
    "expected_pods",
    "groups",
    "pods",
    "scheduler_config",
    "storage",
    "workloads",
)
"""Files that the rest of the project may import; the others are this package's inside."""
