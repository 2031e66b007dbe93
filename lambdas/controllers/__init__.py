"""What each function does once it is awake: observe, decide, act."""
