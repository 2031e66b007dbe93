"""Kubernetes objects from the API server or from files, and their translation into `core.model`."""
