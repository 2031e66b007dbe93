"""How a node empties: evictions, escalation, surge, and the end of the instance."""
