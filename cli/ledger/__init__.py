"""Ledgers as the commands read them: a folder, or a bucket with the user's own rights."""
