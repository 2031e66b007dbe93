"""Mirrors claims as NodeClaims for users of the cluster. No decision reads them: the table is authoritative."""
