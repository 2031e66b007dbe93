"""Rules about which pods may share a node and which nodes may be launched, one module each, behind one interface."""

PUBLIC = ("caps", "commitments", "constraint", "ec2_quotas", "registry")
"""Files that the rest of the project may import; the others are this package's inside."""
