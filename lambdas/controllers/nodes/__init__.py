"""Node objects: reads them once per run, patches them, and writes events on them."""
