"""What commands are to each other and do to a snapshot: independent, merged, carried out."""
