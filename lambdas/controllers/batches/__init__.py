"""Handles a batch of work messages within one invocation: some in parallel; unfinished ones go back to the queue."""
