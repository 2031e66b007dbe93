"""One target for the whole fleet: which nodes stay, where the pods of the others go, and the waves that lead there."""
