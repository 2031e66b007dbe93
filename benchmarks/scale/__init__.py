"""Measures the functions' memory, time and requests beside a cluster of thousands of nodes, with their real clients."""
