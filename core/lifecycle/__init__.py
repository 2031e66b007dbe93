"""Pure functions that choose the next step of a claim or command from its record and the facts about it."""
