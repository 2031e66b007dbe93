"""The caches of the project and of its tests, which would hide the lines that a test needs, and a mutant in them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tests.mutation.areas import CODE, ROOT

_Caching: Final = type(lru_cache(lambda: None))
_FOLDERS: Final = (*CODE, "tests")


class Caches:
    """Empties the caches of functions that exist; looks for new ones when more modules have been imported."""

    def __init__(self) -> None:
        self._emptied: list[Callable[[], None]] = []
        self._modules = 0

    def empty(self) -> None:
        """Forget all results, so that they are computed again."""
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            self._emptied = _found()
        for forget in self._emptied:
            forget()


def _found() -> list[Callable[[], None]]:
    """What empties each cache: those of `functools`, and those by identity of `core.interpreter`."""
    identity_cache = sys.modules.get("core.interpreter")
    by_identity = getattr(identity_cache, "ByIdentity", None)
    found: list[Callable[[], None]] = []
    is_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()  # objects that are frozen are not listed, and whatever ran before may have frozen them
    for one in gc.get_objects():
        if type(one) is _Caching and _is_ours(one.__wrapped__):
            found.append(one.cache_clear)
        elif type(one) is by_identity:
            found.append(one._known.clear)
    if is_frozen:
        gc.freeze()
    return found


def _is_ours(function: Any) -> bool:
    file = Path(getattr(getattr(function, "__code__", None), "co_filename", ""))
    return file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in _FOLDERS
