"""Node objects: what is read of them once a run, what is written to them, and what users are told on them."""
