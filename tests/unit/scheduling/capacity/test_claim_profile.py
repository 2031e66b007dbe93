"""Constraints that many claims share."""

from __future__ import annotations

from itertools import product

from core.scheduling.capacity.claim_profile import ClaimProfiles
from core.scheduling.primitives.handles import NO_TYPES
from tests.builders import a_pod, a_type
from tests.unit.scheduling.reading import context_of

WIDE, TALL = a_type("wide", cpu="16", memory="16Gi"), a_type("tall", cpu="4", memory="64Gi")


def test_equal_constraints_are_one_profile() -> None:
    """Otherwise, a pod that one claim refuses is tried on each of its like."""
    (template,) = context_of(types=(WIDE, TALL), pods=(a_pod(),)).templates
    profiles = ClaimProfiles()
    whole = profiles.of(template, template.offered, template.mask)
    assert profiles.of(template, template.offered, template.mask) is whole
    none = profiles.of(template, template.offered, NO_TYPES)
    assert (whole.index, none.index) == (0, 1)
    assert (whole.mask, none.mask) == (template.mask, NO_TYPES)


def test_a_profile_holds_what_one_of_its_types_holds_alone() -> None:
    """The largest CPU and the largest memory of two types are on no machine."""
    context = context_of(types=(WIDE, TALL), pods=(a_pod(),))
    (template,) = context.templates
    profile = ClaimProfiles().of(template, template.offered, template.mask)
    for cpu, memory in product((1, 4, 5, 16, 17), (1, 16, 17, 64, 65)):
        fits = (cpu <= 16 and memory <= 16) or (cpu <= 4 and memory <= 64)
        total = context.axis.vector({"cpu": cpu * 1000, "memory": memory * 2**30, "pods": 1})
        assert profile.holds(total) == fits
