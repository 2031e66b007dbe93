"""Approval: which commands wait for a person, what is announced, and whether a command still holds.

See docs/engineering/handbook/observe-and-approve.md.
"""
