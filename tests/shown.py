"""Output that a page of the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def shown(page: str, command: str) -> str:
    """Return what the page shows for a command that its test plays elsewhere: the rest of the block that begins with it."""
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(rf"```text\n\$ fleetwright {re.escape(command)}\n(.*?)```", text, re.DOTALL)
    assert found is not None, f"{page} does not show `fleetwright {command}`"
    return found[1]


def is_told(told: str, printed: str) -> bool:
    """Whether the output equals the page's, where `…` stands for any text."""
    pattern = re.escape(told.rstrip()).replace("…", ".*")
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None
