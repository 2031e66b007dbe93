"""Opens ledgers for the commands: a folder, or a bucket with the user's own permissions."""
