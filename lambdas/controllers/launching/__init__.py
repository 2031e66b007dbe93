"""Launches planned claims: from the claim's record to its instance."""
