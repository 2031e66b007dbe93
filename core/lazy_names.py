"""Lets a package export names whose modules are imported only on first use, which keeps cold starts short."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


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
