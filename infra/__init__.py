"""The AWS side as code: two stacks, synthesized from the commit alone; no look-ups, no network."""
