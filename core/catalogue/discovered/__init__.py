"""What EC2 and joined nodes reported about an EC2NodeClass, stored in its status or annotations."""
