"""Judges of a run. They watch the record and share nothing with the code that decides."""
