"""Resolves an EC2NodeClass in the account: images, network, instance profile."""
