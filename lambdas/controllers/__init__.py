"""Controllers of the functions: observe, decide, act."""
