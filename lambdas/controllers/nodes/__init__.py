"""Node objects: reads them once a run, patches them, and writes events on them."""
