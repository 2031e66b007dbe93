"""Renders a simulation as one self-contained page: what was pending, what ran, what it cost, and why."""

from __future__ import annotations

from cli.report.page import PageContent, render

__all__ = ["PageContent", "render"]

PUBLIC = ("page",)
"""Files that the rest of the project may import; the others are this package's inside."""
