"""NodeClaims in the cluster: the mirror of our claims, and users' changes to it."""
