"""Instance types as bit masks: which of them meet requirements, have offerings and have room."""
