"""The command line: the same decisions on files or on a cluster that it only reads, and commands for those who run one."""
