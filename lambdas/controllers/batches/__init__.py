"""Handles a batch of work messages within one invocation: which run in parallel, and which go back to the queue."""
