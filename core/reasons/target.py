"""Reasons why a stored target is continued or replaced."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class TargetReason(ReasonCode):
    """Why a target is followed or planned again."""

    MADE = ("TargetMade", "No target was under way, so one was made.")
    CONTINUED = ("TargetContinued", "The target that is under way still holds, and its next wave is cut.")
    FINISHED = ("TargetFinished", "All nodes of the target that was under way have gone or may not go any more.")
    DEARER = ("TargetDearer", "What is left of the target would save clearly less than it was to save.")
    OUTGROWN = ("TargetOutgrown", "The nodes that were to stay have become clearly more or fewer.")
    TOO_OLD = ("TargetTooOld", "The target was made more than six hours ago.")
    SETTINGS_CHANGED = ("TargetSettingsChanged", "What a move costs or the spot gate has been changed since.")
