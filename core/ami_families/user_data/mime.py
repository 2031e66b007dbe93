"""MIME multipart user data: how cloud-init and nodeadm take several documents at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from core.errors import InvalidInputError

SHELL: Final = 'text/x-shellscript; charset="us-ascii"'
CLOUD_CONFIG: Final = 'text/cloud-config; charset="us-ascii"'
NODE_CONFIG: Final = "application/node.eks.aws"
_BOUNDARY: Final = re.compile(r"boundary=(?:\"([^\"]+)\"|([^\s;]+))", re.IGNORECASE)
_OUR_BOUNDARY: Final = "//"


class Part(msgspec.Struct, frozen=True):
    """One document: its headers as one block of lines, and its text."""

    headers: str
    body: str

    @classmethod
    def of(cls, content_type: str, body: str) -> Part:
        """A document of this type."""
        return cls(f"Content-Type: {content_type}", body)


def for_cloud_init(text: str) -> Part:
    """Return a user's document for cloud-init: as its configuration if the first line says so, else as a script."""
    first_line = text.lstrip().partition("\n")[0].rstrip()
    return Part.of(CLOUD_CONFIG if first_line == "#cloud-config" else SHELL, text)


def is_archive(text: str) -> bool:
    """Whether the text is a MIME archive itself: whether it begins with one of MIME's headers."""
    return text.lstrip().lower().startswith(("mime-version:", "content-type:"))


def read_archive(text: str) -> tuple[Part, ...]:
    """The documents of an archive, headers kept as written. A missing end marker is forgiven.

    Raises:
        InvalidInputError: If its header names no boundary, or there is nothing between the boundaries.
    """
    lines = text.strip().replace("\r\n", "\n").split("\n")
    blank = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    boundary = _BOUNDARY.search(" ".join(lines[:blank]))
    if boundary is None:
        raise InvalidInputError("the MIME archive's header names no boundary", field="spec.userData")
    marker = "--" + (boundary.group(1) or boundary.group(2))
    parts: list[list[str]] = []
    for line in lines[blank:]:
        if line.rstrip() == marker + "--":
            break
        if line.rstrip() == marker:
            parts.append([])
        elif parts:
            parts[-1].append(line)
    if not parts:
        raise InvalidInputError(f"nothing in the MIME archive follows {marker}", field="spec.userData")
    return tuple(_part(lines) for lines in parts)


def write_archive(parts: Sequence[Part]) -> str:
    """One archive of all documents, in order."""
    boundary = _boundary(parts)
    chunks = [f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n']
    chunks += [f"--{boundary}\n{part.headers}\n\n{part.body.rstrip()}\n" for part in parts]
    return "\n".join([*chunks, f"--{boundary}--\n"])


def _boundary(parts: Sequence[Part]) -> str:
    """Return Karpenter's boundary, or the first longer one that no line of any document starts with."""
    lines = [line for part in parts for line in (*part.headers.splitlines(), *part.body.splitlines())]
    boundary = _OUR_BOUNDARY
    while any(line.startswith(f"--{boundary}") for line in lines):
        boundary += "/"
    return boundary


def _part(lines: list[str]) -> Part:
    blank = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
    return Part("\n".join(lines[:blank]), "\n".join(lines[blank + 1 :]))
