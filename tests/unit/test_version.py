"""Digests that identify the code which decided."""

from __future__ import annotations

from core.version import code_digest, files_digest

SOURCES = {"a.py": b"x = 1\n", "b.py": b""}


def test_a_digest_does_not_depend_on_the_order_of_files() -> None:
    assert files_digest(SOURCES) == files_digest(dict(reversed(SOURCES.items())))
    assert len(code_digest(SOURCES)) == 12


def test_a_moved_line_or_a_renamed_file_changes_the_digest() -> None:
    """Otherwise, `replay` would say that the same code decided differently."""
    moved, renamed = {"a.py": b"", "b.py": b"x = 1\n"}, {"a.py": b"x = 1\n", "c.py": b""}
    joined = {"a.py": b"x = 1\nb.py 0\n"}
    assert len({code_digest(files) for files in (SOURCES, moved, renamed, joined, {})}) == 5
