"""Conditions of one NodeClaim: drifted, expired, unhealthy."""
