"""Interprets the text of the kill switch parameter."""

from __future__ import annotations

from enum import StrEnum

from core.brakes.brake import Brake, BrakeKind


class Mode(StrEnum):
    """The values that the parameter may have."""

    RUN = "run"
    PAUSE_DISRUPTION = "pause-disruption"
    STOP = "stop"


def kill_switch(text: str, parameter: str) -> Brake | None:
    """The brake that the parameter's text engages, None for `run`. An unknown text pauses disruption."""
    match text.strip().lower():
        case Mode.RUN:
            return None
        case Mode.STOP:
            return Brake(BrakeKind.STOP, f"parameter {parameter} is {Mode.STOP}; set it to {Mode.RUN} to continue")
        case Mode.PAUSE_DISRUPTION:
            return Brake(
                BrakeKind.PAUSE, f"parameter {parameter} is {Mode.PAUSE_DISRUPTION}; set it to {Mode.RUN} to continue"
            )
        case _:
            modes = ", ".join(Mode)
            return Brake(BrakeKind.UNREADABLE, f"parameter {parameter} is {text[:40]!r}; set it to one of {modes}")
