"""How the linear programs are solved: silently, on one thread, and the same wherever it runs."""

from __future__ import annotations

import highspy


def quiet_solver() -> highspy.Highs:
    """A fresh solver."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy says nothing of its types
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    return solver
