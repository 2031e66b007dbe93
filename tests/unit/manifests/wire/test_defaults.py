"""What an object of the API server is taken to say where it says nothing is what a table says.

These are Kubernetes' own defaults, which the API server writes itself only into objects that went through it.
"""

from __future__ import annotations

from pathlib import Path

import core.manifests.wire
from tests.defaults import defaults_of, listed

TABLE = Path(__file__).with_name("defaults.txt")


def test_every_default_is_the_one_in_the_table() -> None:
    """A field that is new, or whose default changes on purpose, changes its line in `defaults.txt`, too."""
    assert defaults_of(core.manifests.wire) == listed(TABLE)
