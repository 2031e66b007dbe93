"""Selects the nodes that may be disrupted, and computes what moving their pods costs."""
