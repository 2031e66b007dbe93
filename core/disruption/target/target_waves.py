"""Chooses the commands of a target that may begin now, or with budgets ignored, all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from core.disruption.consolidation.domain_change import with_domain_change
from core.disruption.consolidation.payback import WORTHWHILE
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.command_check import approved_commands, valid_commands
from core.disruption.target.realization import Realization
from core.disruption.target.slot_assignment import SlotAssignment
from core.disruption.target.target_fleet import TargetFleet
from core.disruption.target.target_refusals import WaveObjection
from core.disruption.target.target_search import SMALL
from core.disruption.target.waves import WAVES_MAX, WavePlanner
from core.model.plan import Command, PlannedClaim
from core.packing.problem import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A complete target that can be carried out.

    Attributes:
        fleet: The candidates.
        realization: The nodes that go, and where the pods go.
        claims: New nodes under their final names.
        worth: [node], its price less the cost of its pods elsewhere, in nano-dollars per hour.
    """

    fleet: TargetFleet
    realization: Realization
    claims: tuple[PlannedClaim, ...]
    worth: Floats

    @property
    def drains(self) -> frozenset[str]:
        """The nodes that go."""
        pairs = zip(self.fleet.candidates, self.realization.keeps, strict=True)
        return frozenset(candidate.name for candidate, stays in pairs if not stays)


@dataclass(frozen=True, slots=True, eq=False)
class TargetWaves:
    """Commands of a target.

    Attributes:
        commands: In their order.
        objections: Node → why it does not go, budgets aside.
        saved: What new nodes in other domains than the target's save, in nano-dollars per hour.
    """

    commands: list[Command]
    objections: Mapping[str, WaveObjection]
    saved: int = 0

    @property
    def savings(self) -> int:
        """What the commands save, in nano-dollars per hour."""
        return sum(command.savings for command in self.commands)


def target_waves(target: Target, disruption_pass: DisruptionPass, *, is_gated: bool) -> TargetWaves:
    """Return the commands of the first wave, or with budgets ignored, of all waves.

    In a small fleet, each command is valid and pays individually. With budgets ignored, nodes that pay in no wave, and if that
    saves more, all nodes of the target, go together in the first one.
    """
    is_whole = disruption_pass.snapshot.options.ignore_budgets
    waves_max = WAVES_MAX if is_whole else 1
    if len(target.fleet.candidates) > SMALL:
        planned = _planned(target, disruption_pass, is_gated=is_gated, waves_max=waves_max)
        if is_whole:
            return planned
        approved, denied = approved_commands(planned.commands, disruption_pass)
        return TargetWaves(approved, {**planned.objections, **denied})
    found = _valid(target, disruption_pass, is_gated=is_gated, waves_max=waves_max)
    if not is_whole:
        return found
    left = target.drains.difference(*(command.nodes for command in found.commands))
    for together in (left, target.drains) if left else ():
        other = _valid(target, disruption_pass, is_gated=is_gated, waves_max=waves_max, together=together)
        found = max(found, other, key=lambda waves: waves.savings)
    return found


def _valid(
    target: Target, disruption_pass: DisruptionPass, *, is_gated: bool, waves_max: int, together: Collection[str] = ()
) -> TargetWaves:
    """Return commands that are valid individually.

    One has a cheaper new node in another domain if no node of another has to stay for that.
    """
    planned = _planned(
        target, disruption_pass, is_gated=is_gated, waves_max=waves_max, must_pay=True, together=together
    )
    check = partial(valid_commands, disruption_pass=disruption_pass, worthwhile=WORTHWHILE)
    changed = with_domain_change(planned.commands, disruption_pass)
    found, denied = check(changed)
    if changed != planned.commands and denied:
        without_change = check(planned.commands)
        if len(without_change[1]) < len(denied):
            return TargetWaves(without_change[0], {**planned.objections, **without_change[1]})
    saved = sum(command.savings for command in changed) - planned.savings
    return TargetWaves(found, {**planned.objections, **denied}, saved)


def _planned(
    target: Target,
    disruption_pass: DisruptionPass,
    *,
    is_gated: bool,
    waves_max: int,
    must_pay: bool = False,
    together: Collection[str] = (),
) -> TargetWaves:
    slots = SlotAssignment(target.fleet, target.realization, target.claims, is_gated=is_gated)
    planner = WavePlanner(disruption_pass, target.fleet, target.realization, slots, target.worth)
    found = planner.commands(waves_max=waves_max, must_pay=must_pay, together=together)
    return TargetWaves(found, dict(planner.objections))
