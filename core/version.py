"""The release, said once: the wheel, the command line and the functions' user agent read it here."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
