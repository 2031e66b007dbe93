"""`fleetwright release`: shows which of our nodes can be transferred to Karpenter, and transfers them."""

from __future__ import annotations

import argparse

from cli.takeover.steps import RELEASE, configure_handover, hand_over


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    configure_handover(parser, RELEASE)


def run(arguments: argparse.Namespace) -> int:
    """Show the transfer, or carry it out; negative if something prevents it."""
    return hand_over(arguments, RELEASE)
