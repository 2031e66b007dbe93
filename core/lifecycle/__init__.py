"""What one claim or command does next, as a pure function of its record and of what was looked up."""
