"""Permissions, each a method that adds statements to a role. `infra.constructs.permissions` says which function gets which."""
