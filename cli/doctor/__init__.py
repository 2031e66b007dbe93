"""Finds obstacles in an account or a cluster before a deployment, and checks afterwards that it works."""
