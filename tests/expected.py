"""Whole results that tests compare with texts beside them: `python -m tests.expected` writes the texts.

A text is no proof that a result is right: each test also asks a judge that does not share the product's code. The text shows a
reviewer what a change of the code changes, and a test fails for any change that nobody has looked at.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from installation.array_threads import ARRAY_THREADS

MODULES: Final = (
    "tests.property.disruption.test_expected_decisions",
    "tests.property.scheduling.test_expected_plans",
    "tests.property.scheduling.test_expected_searches",
    "tests.simulation.test_expected_courses",
    "tests.simulation.test_rare_courses",
    "tests.unit.packing.test_problem",
)
"""The modules of tests with texts; each has an `EXPECTED`."""

_HEADING: Final = "### "


class Expected:
    """The texts of one file, each under a heading.

    Args:
        file: Where they are.
        cases: Name of a case → what returns its text; the name says what the case is about.
    """

    def __init__(self, file: Path, cases: Mapping[str, Callable[[], str]]) -> None:
        self.file = file
        self.cases = cases

    def text(self, name: str) -> str:
        """The text that the file has for a case.

        Raises:
            KeyError: If it has none: `python -m tests.expected` writes it.
        """
        return self.texts()[name]

    def texts(self) -> dict[str, str]:
        """Heading → text, as the file has them."""
        parts = ("\n" + self.file.read_text(encoding="utf-8")).split(f"\n{_HEADING}")[1:]
        return {heading: rest.strip("\n") for heading, _, rest in (part.partition("\n") for part in parts)}

    def write(self) -> None:
        """Write all texts."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        parts = (f"{_HEADING}{name}\n{case()}\n" for name, case in self.cases.items())
        self.file.write_text("\n".join(parts), encoding="utf-8")


def main() -> int:
    """Write the texts of all modules, or of those whose names are given."""
    os.environ.update(ARRAY_THREADS)  # before numpy is loaded, as in the tests
    for module in sys.argv[1:] or MODULES:
        import_module(module).EXPECTED.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
