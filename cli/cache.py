"""Files in the user's cache folder, each named by the digest of everything that its content was derived from."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import msgspec

import core
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue, InstanceType
from core.model.node_pool import Calendar, NodeClass, NodePool
from core.model.plan import NodeClaim
from core.model.snapshot import NodeOverlay
from core.model.values.quotas import SizingSettings
from core.version import files_digest

# Identifies the code that derives cached results, so that changed code does not use results of an older version.

_SIZING: Final = SizingSettings()


SOURCES: Final = (
    "ami_families",
    "api",
    "catalogue",
    "model",
    "reasons",
    "calendars.py",
    "cron.py",
    "errors.py",
    "interpreter.py",
    "labels.py",
    "pools.py",
)
"""Parts of `core` that read Karpenter's objects and build the catalogue. A test compares them with the actual imports."""

_LIBRARIES: Final = ("pydantic", "msgspec")


@cache
def program_digest() -> bytes:
    """Return the digest of that code and its libraries' versions; empty if the sources cannot be read."""
    versions = repr((sys.version_info, msgspec.__version__)).encode()
    try:
        return files_digest({"versions": versions, **{name: path.read_bytes() for name, path in _files().items()}})
    except OSError:
        return b""


def _files() -> dict[str, Path]:
    """Return the files by path within `core`, or by library."""
    root = Path(core.__path__[0])
    sources = [
        file for name in SOURCES for file in ((root / name).rglob("*.py") if (root / name).is_dir() else [root / name])
    ]
    sources_by_path = {path.relative_to(root).as_posix(): path for path in sources}
    for name in _LIBRARIES:
        origin = spec.origin if (spec := find_spec(name)) is not None else None
        if origin:
            sources_by_path |= {f"{name}/{path.name}": path for path in Path(origin).parent.glob("version.py")}
    return sources_by_path


VARIABLE: Final = "FLEETWRIGHT_CACHE_DIR"
"""Environment variable with another cache folder; empty to disable caching."""

BYTES_MAX: Final = 64 * 2**20
"""The most bytes of all files together; the oldest are deleted first."""

_WITHOUT_REFERENCES: Final = 2
"""The version of marshal's format in which equal content has equal bytes, regardless of sharing."""

_DIGEST_BYTES: Final = 32
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class Store:
    """Content by key, on disk. Unreadable content is derived again; failures to write are ignored."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def key(self, *parts: Any) -> str:
        """Return the key for the result of these inputs under this version of the code; empty if caching is disabled.

        Parts are bytes or JSON values. With any other value, equal inputs cannot be recognized.
        """
        if self._folder is None or not (program := program_digest()):
            return ""
        try:
            return hashlib.sha256(marshal.dumps((program, *parts), _WITHOUT_REFERENCES)).hexdigest()
        except ValueError:
            return ""

    def get(self, key: str) -> bytes | None:
        """Return the content of a key, None if there is none or the file is damaged."""
        if self._folder is None or not key or not _is_own(self._folder):
            return None
        try:
            raw = (self._folder / key).read_bytes()
        except OSError:
            return None
        digest, content = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        return content if hashlib.sha256(content).digest() == digest else None

    def put(self, key: str, content: bytes) -> None:
        """Store the content atomically."""
        if self._folder is None or not key:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own(self._folder):
                return
            _make_room(self._folder, len(content))
            descriptor, written = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            Path(written).replace(self._folder / key)


def user_store() -> Store:
    """Return the store of the user who runs the program."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return Store(Path(chosen) if chosen else None)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path.expanduser raises without a home
    return Store(Path(base) / "fleetwright" if Path(base).is_absolute() else None)


def _is_own(folder: Path) -> bool:
    """Return whether only the user can write to the folder: its content decides plans."""
    try:
        about = folder.stat()
    except OSError:
        return False
    return about.st_uid == os.getuid() and not about.st_mode & _OTHERS


def _make_room(folder: Path, wanted: int) -> None:
    files = [(path.stat(), path) for path in folder.iterdir() if path.is_file()]
    total = wanted + sum(about.st_size for about, _ in files)
    for about, path in sorted(files, key=lambda file: (file[0].st_mtime_ns, file[1].name)):
        if total <= BYTES_MAX:
            return
        path.unlink(missing_ok=True)
        total -= about.st_size


# Caches the built-in catalogue as sized for EC2NodeClasses: sizing thirteen hundred types takes a tenth of a second.


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A catalogue with each distinct list of types once: planning prepares a list once for all classes that share it.

    Attributes:
        lists: The lists of types.
        by_node_class: EC2NodeClass → position of its list; the default's is 0.
    """

    lists: tuple[tuple[InstanceType, ...], ...]
    by_node_class: dict[str, int]


def builtin_catalogue(
    store: Store, region: str, node_classes: Sequence[Mapping[str, Any]], settings: SizingSettings = _SIZING
) -> Catalogue:
    """Return the catalogue of a region, sized for these EC2NodeClasses by these settings.

    Raises:
        InvalidInputError: If no market of that region is built in.
    """
    from simulator.market import embedded

    sizing = () if settings == _SIZING else (msgspec.to_builtins(settings),)
    key = store.key("catalogue", embedded.source_bytes(), region, list(node_classes), *sizing)
    if (raw := store.get(key)) is not None:
        try:
            return _unfolded(msgspec.msgpack.decode(raw, type=_Kept))
        except (msgspec.MsgspecError, IndexError):
            pass
    catalogue = embedded.builtin_catalogue(region, node_classes, settings)
    store.put(key, msgspec.msgpack.encode(_folded(catalogue)))
    return catalogue


def _folded(catalogue: Catalogue) -> _Kept:
    lists = {id(types): types for types in (catalogue.default, *catalogue.by_node_class.values())}
    positions = {identity: position for position, identity in enumerate(lists)}
    by_class = {name: positions[id(types)] for name, types in catalogue.by_node_class.items()}
    return _Kept(lists=tuple(lists.values()), by_node_class=by_class)


def _unfolded(kept: _Kept) -> Catalogue:
    return Catalogue(kept.lists[0], {name: kept.lists[position] for name, position in kept.by_node_class.items()})


# Reads Karpenter's objects through `core.api`, and caches the result: loading pydantic's models takes longer than a plan.


class _Readings(msgspec.Struct, frozen=True, kw_only=True):
    """The results of reading one input's objects, each kind in the order of its objects."""

    node_pools: tuple[NodePool, ...]
    node_classes: tuple[NodeClass, ...]
    node_claims: tuple[NodeClaim, ...]
    node_overlays: tuple[NodeOverlay, ...]
    calendars: tuple[Calendar, ...]


_FIELDS: Final[Mapping[str, Resource]] = {
    "node_pools": resources.NODE_POOLS,
    "node_classes": resources.EC2_NODE_CLASSES,
    "node_claims": resources.NODE_CLAIMS,
    "node_overlays": resources.NODE_OVERLAYS,
    "calendars": resources.CALENDARS,
}


class KeptReaders:
    """The readers of `core.api` for these objects, cached in the store."""

    def __init__(self, store: Store, objects: Mapping[Resource, Sequence[Any]]) -> None:
        self._store = store
        self._objects = {name: objects.get(resource, ()) for name, resource in _FIELDS.items()}
        self._key = store.key("objects", {name: list(kind_objects) for name, kind_objects in self._objects.items()})
        self._kept = self._read_kept()
        self._read: dict[int, Any] = {}

    def node_pool(self, obj: Any) -> NodePool:
        """Read a NodePool. Raises InvalidInputError."""
        return cast("NodePool", self._answer("node_pool", obj))

    def node_class(self, obj: Any) -> NodeClass:
        """Read an EC2NodeClass. Raises InvalidInputError."""
        return cast("NodeClass", self._answer("node_class", obj))

    def node_claim(self, obj: Any) -> NodeClaim:
        """Read a NodeClaim. Raises InvalidInputError."""
        return cast("NodeClaim", self._answer("node_claim", obj))

    def node_overlay(self, obj: Any) -> NodeOverlay:
        """Read a NodeOverlay. Raises InvalidInputError."""
        return cast("NodeOverlay", self._answer("node_overlay", obj))

    def calendar(self, obj: Any) -> Calendar:
        """Read a Calendar. Raises InvalidInputError."""
        return cast("Calendar", self._answer("calendar", obj))

    def keep(self) -> None:
        """Store the results, unless an object was refused: its message is created by reading it again."""
        if not self._read or any(id(obj) not in self._read for objects in self._objects.values() for obj in objects):
            return
        readings = {name: tuple(self._read[id(obj)] for obj in objects) for name, objects in self._objects.items()}
        self._store.put(self._key, msgspec.msgpack.encode(_Readings(**readings)))

    def _answer(self, function: str, obj: Any) -> Any:
        if id(obj) in self._kept:
            return self._kept[id(obj)]
        from core import api

        translated = getattr(api, function)(obj)
        self._read[id(obj)] = translated
        return translated

    def _read_kept(self) -> dict[int, Any]:
        raw = self._store.get(self._key)
        if raw is None:
            return {}
        try:
            readings = msgspec.msgpack.decode(raw, type=_Readings)
        except msgspec.MsgspecError:
            return {}
        pairs = [(self._objects[name], getattr(readings, name)) for name in _FIELDS]
        return {id(obj): reading for objects, kept in pairs for obj, reading in zip(objects, kept, strict=True)}
