"""Rules about which pods may share a node and which nodes may be launched, one module each, behind one interface."""
