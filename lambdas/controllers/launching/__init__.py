"""From a planned claim to an instance."""
