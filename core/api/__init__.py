"""The users' objects (NodePool, EC2NodeClass, NodeClaim, NodeOverlay) as they write them: parsing, validation, conversion."""
