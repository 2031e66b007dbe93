"""Reads a whole cluster from its API server, and writes it as one document, with or without its names."""
