"""The command line: the same decisions on files instead of a live cluster, without a network."""
