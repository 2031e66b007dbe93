"""Kubernetes objects as they come over the wire: typed structs and their decoding, nothing translated yet."""
