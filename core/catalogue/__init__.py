"""From EC2's description of instance types to the catalogue that decisions buy from."""
