"""Reads the defaults of all structs and API models of a package, each as a line `Class.field = default`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from pydantic import BaseModel

from core.ami_families.family import AmiFamily


def listed(table: Path) -> list[str]:
    """The lines of a table, which are sorted."""
    return table.read_text().splitlines()


def defaults_of(package: ModuleType) -> list[str]:
    """The defaults of the fields that classes of the package and below it declare, sorted; inherited fields count once."""
    names = [package.__name__, *(f.name for f in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))]
    modules = [importlib.import_module(name) for name in names]
    return sorted(line for module in modules for line in _of_module(module))


def _of_module(module: ModuleType) -> Iterator[str]:
    for class_ in vars(module).values():
        if not isinstance(class_, type) or class_.__module__ != module.__name__:
            continue
        if issubclass(class_, msgspec.Struct):
            fields = {field.name: _of_struct_field(field) for field in msgspec.structs.fields(class_)}
        elif issubclass(class_, BaseModel):
            fields = {name: _of_model_field(field) for name, field in class_.model_fields.items()}
        else:
            continue
        own = inspect.get_annotations(class_)
        yield from (f"{class_.__name__}.{name} = {said}" for name, said in fields.items() if name in own and said)


def _of_struct_field(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return _said(field.default_factory())
    return "" if field.default is msgspec.NODEFAULT else _said(field.default)


def _of_model_field(field: Any) -> str:
    return "" if field.is_required() else _said(field.get_default(call_default_factory=True))


def _said(value: object) -> str:
    """The value as Python; an object made of defaults is only its class, as lines of its own say the rest."""
    if isinstance(value, AmiFamily):  # it has functions, whose text changes with each process
        return value.name
    if isinstance(value, msgspec.Struct | BaseModel):
        class_ = type(value)
        try:
            return f"{class_.__name__}()" if value == class_() else repr(value)
        except (TypeError, ValueError):  # a field has no default
            return repr(value)
    return f"[{', '.join(map(_said, value))}]" if isinstance(value, list) else repr(value)
