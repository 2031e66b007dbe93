"""Identifies the commit that a run measures."""

from __future__ import annotations

import subprocess


def commit() -> str:
    """Return the commit that is checked out; empty outside a repository."""
    completed = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607
    return completed.stdout.strip()
