"""Capacity for pods: existing nodes, NodeClaim templates and in-flight claims, less daemons and limits."""
