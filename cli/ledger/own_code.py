"""Identifies the installed deciding code, in the form in which the ledger records it."""

from __future__ import annotations

from pathlib import Path

import core
from core.version import code_digest


def own_code() -> str:
    """Return the digest of `core` as it is installed (`code_digest`)."""
    folder = Path(core.__file__).parent
    return code_digest({path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.py")})
