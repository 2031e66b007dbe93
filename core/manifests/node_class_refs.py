"""Tells whose NodePool one is, by the class that it names: ours, EKS Auto Mode's, or another provider's."""

from __future__ import annotations

import difflib
from typing import Final

from core import labels

AUTO_MODE_GROUP: Final = "eks.amazonaws.com"
_KIND: Final = "EC2NodeClass"
_GCP_GROUP: Final = "karpenter.k8s.gcp"
"""Another provider's group that is as close to ours as a misspelling, as is its kind GCENodeClass."""
_ALIKE: Final = 0.8
"""From this similarity on, a kind or a group is a misspelling of ours: no other provider has one so close."""


def owner_of(group: str, kind: str) -> str:
    """Return who launches the nodes of a NodePool with such a reference; empty if it is ours, or a misspelling of ours.

    Karpenter's core takes any provider's class: other providers have groups of their own, such as `karpenter.azure.com`.
    """
    if group == AUTO_MODE_GROUP:
        return f"EKS Auto Mode ({group})"
    is_like_ours = kind in ("", _KIND) or _is_like(kind, _KIND)
    if not group and is_like_ours:
        return ""
    if group == _GCP_GROUP:
        return _another(group, kind)
    if group in (labels.CORE_GROUP, labels.AWS_GROUP) or _is_like(group, labels.AWS_GROUP):
        return ""
    if is_like_ours and group.startswith("karpenter"):
        return ""
    return _another(group, kind)


def _another(group: str, kind: str) -> str:
    return f"another provider ({group or 'no group'}, {kind or 'no kind'})"


def _is_like(word: str, right: str) -> bool:
    return difflib.SequenceMatcher(None, word, right).ratio() >= _ALIKE
