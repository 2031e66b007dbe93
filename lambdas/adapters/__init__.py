"""Where ports meet the real services."""
