"""A function invoked in virtual time: its sandbox, its calls to the outside, their duration and their faults."""
