"""Kubernetes objects as they come over the wire or out of a file, and their translation into `core.model`."""
