"""Assigns tests to the processes of pytest-xdist."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from xdist.scheduler import LoadScopeScheduling

POLLING: Final = "polling"
WORLD_OF: Final = {
    "test_outage.py": "outage",
    "test_burst.py": "burst",
    "test_scenarios.py": POLLING,
    "test_audit_delivery.py": POLLING,
    "test_access.py": POLLING,
    "test_bad_input.py": POLLING,
    "test_optional_settings.py": POLLING,
}
"""Which test modules play in one world, one after the other; the longest first. The others need none."""


class ByWorld(LoadScopeScheduling):
    """Gives a process all tests of a world, or of a module that needs none; a world takes half a minute to start."""

    def _split_scope(self, nodeid: str) -> str:
        module = Path(nodeid.partition("::")[0]).name
        return WORLD_OF.get(module, module)
