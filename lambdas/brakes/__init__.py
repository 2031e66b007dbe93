"""How the functions learn which brakes are engaged, and how they engage those that are theirs."""
