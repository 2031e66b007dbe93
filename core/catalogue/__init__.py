"""EC2's description of types, a market and an EC2NodeClass, made into the instance types that decisions buy from."""
