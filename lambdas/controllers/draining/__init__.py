"""What is done to a node that goes: keep new pods off, evict or force off its pods, delete the Node."""
