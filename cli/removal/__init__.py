"""`drain --all`: finds everything that an installation created in a cluster and an account, and removes it."""
