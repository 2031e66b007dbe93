"""The process around every function's work: clock, logs and metrics, parallel tasks, and struct types for threads."""
