"""Connects the core to AWS and to clusters, for the functions and the command line: ports, adapters, observation."""
