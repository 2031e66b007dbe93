"""What every function needs around its work: the clock, logs and metrics, parallel tasks, and types prepared for threads."""
