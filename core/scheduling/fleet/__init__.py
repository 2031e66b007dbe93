"""The running fleet in the terms of the keep-or-drain program, and the program's seats in the terms of the scheduler."""
