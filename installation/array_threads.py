"""How many threads compute the planner's arrays: one, wherever a plan is made that others repeat.

See docs/engineering/handbook/planning.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ARRAY_THREADS: Final[Mapping[str, str]] = MappingProxyType({"OPENBLAS_NUM_THREADS": "1"})
"""Environment variables of every process that plans. numpy reads them when it is loaded.

The last bits of a matrix product depend on the number of threads, and with them, rarely, a plan.
"""
