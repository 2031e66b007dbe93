"""One target for the whole fleet: which nodes stay, where the pods of the others go, and the waves that lead there."""

PUBLIC = ("decide", "fleet", "move_price", "search", "stored")
"""Files that the rest of the project may import; the others are this package's inside."""
