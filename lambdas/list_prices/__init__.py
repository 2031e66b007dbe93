"""On-demand list prices that ship with the code, for regions whose list cannot be read."""
