"""The functions beside a cluster of thousands of nodes, with their real clients: memory, time, requests."""
