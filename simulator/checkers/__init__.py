"""The judges of a run. They read the record and share nothing with the code that decides."""

from simulator.checkers.verdict import Judges, Verdict

__all__ = ["Judges", "Verdict"]
