"""A batch of work messages within one invocation: what is handled beside what, and what goes back."""
