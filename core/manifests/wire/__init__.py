"""Kubernetes objects in their wire form: typed structs and their decoding, without translation."""
