"""How documents of the ledger are stored and read: compressed, as differences, with equal parts read once."""
