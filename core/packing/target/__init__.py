"""The keep-or-drain program: which nodes of a fleet stay, and where the pods of the others go."""
