"""Kubernetes objects in their wire form: typed structs and their decoding, without translation."""

PUBLIC = ("admission", "decoding", "objects", "pod", "resources", "versions")
"""Files that the rest of the project may import; the others are this package's inside."""
