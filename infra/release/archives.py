"""Archives with the same bytes whoever packs them: sorted names, one time, one owner."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can hold."""

_FILE: Final = 0o100644 << 16
_PROGRAM: Final = 0o100755 << 16


def digest_of_folder(folder: Path) -> str:
    """Return a digest of the paths and contents of all files."""
    text = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        text.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return text.hexdigest()


def pack_zip(folder: Path, target: Path) -> None:
    """Write a folder's files as a zip, as Lambda reads it."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), TIME)
            entry.external_attr = _PROGRAM if path.stat().st_mode & 0o100 else _FILE
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())


def pack_tar(files: Mapping[str, str], target: Path) -> None:
    """Write texts by path as a compressed tar, as Helm reads it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in sorted(files):
            content = files[name].encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
