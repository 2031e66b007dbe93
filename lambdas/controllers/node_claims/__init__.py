"""NodeClaims in the cluster: the mirror of our claims, and what users do to it."""
