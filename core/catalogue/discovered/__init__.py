"""What EC2 and nodes that joined have shown about an EC2NodeClass, kept in its annotations."""
