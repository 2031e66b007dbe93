"""Handles external events: the EKS audit log, and EC2 and Health events."""
