"""What every JSON answer has."""

from __future__ import annotations

from typing import Literal

import msgspec


class JsonAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """Its version; fields may be added."""

    api_version: Literal["fleetwright.dev/v1"]


class PricesAnswer(msgspec.Struct, kw_only=True):
    """Where prices come from; region and date are empty if a catalogue file does not name them."""

    source: str
    region: str
    date: str
