"""What one claim or command does next, as a pure function of its record and of the facts about it."""
