"""Finds the classes of a package that have fields, and tells how two objects of a class are compared."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import numpy as np


def classes_of(package: ModuleType) -> Iterator[tuple[str, type]]:
    """The structs and dataclasses that modules below a package define, with their names."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for class_ in vars(importlib.import_module(found.name)).values():
            if isinstance(class_, type) and class_.__module__ == found.name and _has_fields(class_):
                yield class_.__name__, class_


def is_compared_by_fields(class_: type) -> bool:
    """Whether `==` of two objects compares their fields."""
    config = getattr(class_, "__struct_config__", None)
    return class_.__eq__ is not object.__eq__ if config is None else bool(config.eq)


def holds_arrays(class_: type) -> bool:
    """Whether a field is annotated as a numpy array, or as something that contains one."""
    return any(part is np.ndarray for hint in _hints(class_).values() for part in _parts(hint))


def _has_fields(class_: type) -> bool:
    return issubclass(class_, msgspec.Struct) or is_dataclass(class_)


def _hints(class_: type) -> dict[str, Any]:
    known: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(class_, localns=known)
        except NameError as unknown:  # the name is imported for type checking alone
            known[unknown.name] = object


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    yield get_origin(hint)
    for part in get_args(hint):
        yield from _parts(part)
