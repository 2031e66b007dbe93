"""Where every pending pod goes, and which nodes must be launched for them."""
