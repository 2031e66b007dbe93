"""What one claim or one command does next, as a pure function of its facts."""
