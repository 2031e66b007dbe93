"""The defaults of all fields of `core.catalogue` are those of a table, so that one that changes by mistake is noticed.

An EC2NodeClass leaves most of them out, and hardly any test would miss one.
"""

from __future__ import annotations

from pathlib import Path

import core.catalogue
from tests.defaults import defaults_of, listed

TABLE = Path(__file__).with_name("defaults.txt")


def test_every_default_is_the_one_in_the_table() -> None:
    """A field that is new, or whose default changes on purpose, changes its line in `defaults.txt`, too."""
    assert defaults_of(core.catalogue) == listed(TABLE)
