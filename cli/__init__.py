"""The command line: decisions about files or about a cluster that it only reads, and commands for operators."""
