"""The form of each kind: which fields there are, what each may be, and which rules hold between them."""
