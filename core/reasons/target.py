"""Reasons why a stored target is continued or replaced."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class TargetReason(ReasonCode):
    """Why a target is followed or planned again."""

    MADE = ("TargetMade", "There was no target, so one was planned.")
    CONTINUED = ("TargetContinued", "The current target still holds and is continued.")
    FINISHED = ("TargetFinished", "All nodes of the previous target are gone or may no longer be disrupted.")
    SAVES_LESS = ("TargetSavesLess", "The rest of the target would save clearly less than planned.")
    OUTGROWN = ("TargetOutgrown", "The nodes that stay have clearly grown or shrunk since the target was planned.")
    TOO_OLD = ("TargetTooOld", "The target was planned more than six hours ago.")
    SETTINGS_CHANGED = ("TargetSettingsChanged", "The price of moves or the feature gate for spot has changed since.")
