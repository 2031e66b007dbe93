"""What wakes us from outside: the EKS audit log, and EC2 and Health events."""
