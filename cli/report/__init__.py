"""Renders a simulation as one self-contained page: what was pending, what ran, what it cost, and why."""

from __future__ import annotations

from cli.report.page import render
from cli.report.page_data import PageContent

__all__ = ["PageContent", "render"]
