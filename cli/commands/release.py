"""`fleetwright release`: shows which nodes of ours would be Karpenter's, and gives them to it."""

from __future__ import annotations

import argparse

from cli.takeover.command import RELEASE, configure_handover, hand_over


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    configure_handover(parser, RELEASE)


def run(arguments: argparse.Namespace) -> int:
    """Show what would change hands, or let it; negative where something is in the way."""
    return hand_over(arguments, RELEASE)
