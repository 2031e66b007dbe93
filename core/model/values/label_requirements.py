"""Labels of nodes and claims as requirements, computed once for each object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from core.identity_cache import ByIdentity
from core.model.values.requirements import Requirements

OBJECTS_REMEMBERED: Final = 4_000
"""Labels of 2,000 nodes and their claims, some kilobytes each.

A pass reads them for drift, and once for each of its planners."""

requirements_of_labels: Final = ByIdentity[Mapping[str, str], Requirements](
    Requirements.from_labels, size=OBJECTS_REMEMBERED
)
"""The requirements of an object's labels, which never change."""
