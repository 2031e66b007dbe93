"""Renders the EC2 requests for a claim and its EC2NodeClass: offerings, launch templates, the fleet request. Pure rendering.

selection (before the claim is stored) → images → template → fleet;   `render` puts them together
"""

PUBLIC = ("denials", "request", "selection", "template", "validation")
"""Files that the rest of the project may import; the others are this package's inside."""
