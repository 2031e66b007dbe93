"""`drain --all`: finds everything that an installation made in a cluster and an account, and removes it."""
