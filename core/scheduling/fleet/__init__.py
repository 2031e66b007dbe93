"""Translates the running fleet for the keep-or-drain program, and the program's seats back for the scheduler."""
