"""The formats of user data, from which the families assemble theirs."""
