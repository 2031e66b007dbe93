"""What the core asks of the interpreter: a collector that rests, results cached by identity, names loaded at first use."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

# Freezes objects, and pauses Python's cyclic garbage collector while a cluster is read or planned.


class TrackedObjects:
    """The objects that the garbage collector tracks: it visits them, or they are frozen.

    The class knows whether they are frozen, because the interpreter counts frozen objects one by one: 20 ms for a process
    that has loaded all tests, at the end of every pause.
    """

    is_frozen: ClassVar[bool] = False

    @classmethod
    def freeze(cls) -> None:
        """Take all that is there now out of the collector's sight."""
        gc.freeze()
        cls.is_frozen = True

    @classmethod
    def unfreeze(cls) -> None:
        """Let the collector visit everything again."""
        gc.unfreeze()
        cls.is_frozen = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector, and restore its state at the end, also after an error.

    Decoded objects and plans contain no cycles: reference counting frees them. Repeated collections over a hundred thousand
    pods would take two to four times as long as decoding them, and a tenth of planning. The collector belongs to the whole
    process, so the shell decides about it, not the core.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not TrackedObjects.is_frozen:
                # Both together make what was made meanwhile old, without a look at it. Else the first new object after this
                # would start a collection that visits a hundred thousand pods: a twentieth of a plan's time.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


Key = TypeVar("Key")
Answer = TypeVar("Answer")


class ByIdentity(Generic[Key, Answer]):
    """A function of one immutable object that caches its last few results.

    The cache keeps the object alive, so one identity always means one value, and caching never changes a result.
    """

    def __init__(self, compute: Callable[[Key], Answer], *, size: int) -> None:
        self._compute = compute
        self._size = size
        self._known: OrderedDict[int, tuple[Key, Answer]] = OrderedDict()

    def __call__(self, key: Key) -> Answer:
        """Return the result for `key`, cached or computed."""
        frame = self._known.get(id(key))
        if frame is None:
            frame = self._known[id(key)] = (key, self._compute(key))
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(id(key))
        return frame[1]


# Lets a package export names whose modules are imported only on first use, which keeps cold starts short.


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the package's `__getattr__`.

    Args:
        package: Its `__name__`.
        modules: Exported name → the module that defines it, relative to the package.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get
