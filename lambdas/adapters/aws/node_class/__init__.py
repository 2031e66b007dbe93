"""What an EC2NodeClass resolves to in the account: images, network, instance profile."""
