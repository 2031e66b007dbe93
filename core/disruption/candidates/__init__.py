"""Which nodes may be disrupted at all, and what moving their pods costs."""
