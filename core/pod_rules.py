"""Reads rules between pods as kube-scheduler does. The planner and our own binding ask here, so that both read them alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from core import labels
from core.model.pod import SCHEDULE_ANYWAY, LabelSelector, TopologySpread
from core.model.values.requirements import Requirement

SPREADS_COUNT_TERMINATING: Final = False
"""A spread skips pods whose deletion has begun (podtopologyspread/common.go, countPodsMatchSelector)."""

AFFINITIES_COUNT_TERMINATING: Final = True
"""Affinity and anti-affinity, both ways, count pods until they are gone (interpodaffinity/filtering.go asks nothing else)."""

SYSTEM_SPREADS: Final = (
    TopologySpread(labels.HOSTNAME, 3, SCHEDULE_ANYWAY),
    TopologySpread(labels.ZONE, 5, SCHEDULE_ANYWAY),
)
"""Spreads of pods without their own, unless configured otherwise (podtopologyspread/plugin.go, `defaultingType: System`)."""


def spread_selector(spread: TopologySpread, own: Mapping[str, str]) -> LabelSelector | None:
    """Return what a constraint of a pod with these labels selects, None for nothing.

    An empty selector selects nothing (podtopologyspread/common.go), unless `matchLabelKeys` add to it.
    """
    selector = with_label_keys(spread.selector, own, spread.match_label_keys)
    return selector if selector is not None and selector.requirements else None


def with_label_keys(
    selector: LabelSelector | None, own: Mapping[str, str], same: Iterable[str], other: Iterable[str] = ()
) -> LabelSelector | None:
    """Return the selector narrowed to the pod's own values of the keys `same`, and to other values of the keys `other`."""
    if selector is None:
        return None
    added = [Requirement(key, False, (own[key],)) for key in sorted(set(same)) if key in own]
    added += [Requirement(key, True, (own[key],)) for key in sorted(set(other)) if key in own]
    return LabelSelector(tuple(sorted({*selector.requirements, *added}))) if added else selector
