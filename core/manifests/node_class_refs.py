"""Tells whose NodePool one is, by the class that it names: ours, EKS Auto Mode's, or another provider's."""

from __future__ import annotations

import difflib
from typing import Final

from core import labels

AUTO_MODE_GROUP: Final = "eks.amazonaws.com"
AUTO_MODE_KIND: Final = "NodeClass"
_KIND: Final = "EC2NodeClass"
_DOMAIN: Final = "karpenter.k8s."
"""Several providers name their group this, followed by their cloud: `karpenter.k8s.gcp`, `karpenter.k8s.alibabacloud`."""
_ALIKE: Final = 0.8
"""From this similarity on, a kind or a group is a misspelling of ours."""


def owner_of(group: str, kind: str) -> str:
    """Return who launches the nodes of a NodePool with such a reference; empty if it is ours, or a misspelling of ours.

    Karpenter's core takes any provider's class: other providers have groups of their own, such as `karpenter.azure.com`.
    """
    if group == AUTO_MODE_GROUP:
        return f"EKS Auto Mode ({group})"
    is_nearly_ours = not kind or _is_like(kind, _KIND)
    is_misspelt = is_nearly_ours and (not kind or kind.lower().startswith(_KIND[:3].lower()))
    if (
        group in (labels.CORE_GROUP, labels.AWS_GROUP)
        or (is_nearly_ours and (not group or _is_misspelt(group)))
        or (is_misspelt and group.startswith("karpenter"))
    ):
        return ""
    return f"another provider ({group or 'no group'}, {kind or 'no kind'})"


def _is_misspelt(group: str) -> bool:
    """Whether a group is nearly ours. Where only the cloud differs, its name must be one edit away: `awz`, not `gcp`."""
    if group.startswith(_DOMAIN):
        return _is_like(group.removeprefix(_DOMAIN), labels.AWS_GROUP.removeprefix(_DOMAIN), alike=0.6)
    return _is_like(group, labels.AWS_GROUP)


def _is_like(word: str, right: str, alike: float = _ALIKE) -> bool:
    return difflib.SequenceMatcher(None, word, right).ratio() >= alike
