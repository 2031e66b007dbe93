"""The judges of a run. They read only the record, and share no code with the functions under test."""

from simulator.checkers.verdict import Judges, Verdict

__all__ = ["Judges", "Verdict"]
