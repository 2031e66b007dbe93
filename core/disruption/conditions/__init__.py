"""What is true of one NodeClaim: drifted, expired, unhealthy."""
