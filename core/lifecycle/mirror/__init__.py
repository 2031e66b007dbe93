"""Claims as the NodeClaims that users see in the cluster. Nothing is decided by them: the table is the truth."""
