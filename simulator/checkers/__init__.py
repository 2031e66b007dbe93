"""The judges of a run. They read only the record, and share no code with the functions under test."""
