"""Every tuning constant of the search for cheaper nodes and of a fleet's target, grouped by algorithm.

A name means the same in every group: `*_relative` is a share of a cost, price or capacity; `*_max` and `*_min` bound a count;
`stop_gap_relative` is the cost over the bound at which an algorithm stops. What has no other source was chosen on the
benchmark's cases (docs/reference/benchmarks.md); docs/engineering/handbook/packing.md and target-packing.md have the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Final, Protocol, cast, runtime_checkable

import msgspec

# Bounds a search by steps, or earlier by the caller's clock.


LATE_SHARE: Final = 0.9
"""Elapsed share of the time from which no long step begins any more, and begun ones are given up: what follows them takes up to
a fifth of the time, and a plan must end soon after its time."""


PRIMAL_ITERATIONS_MAX: Final = 50_000
"""The most iterations with which the primal simplex continues from a solution; programs of targets take a few hundred."""


class TooLateError(Exception):
    """A step of a search was given up, and the best result so far stands."""


@runtime_checkable
class RecordsCuts(Protocol):
    """A clock that records whether a stage was left out or ended for want of time, although some was left."""

    def record_cut(self) -> None:
        """Record it."""


class SearchBudget(msgspec.Struct):
    """The budget of one search. Steps decide, so that every machine gives the same result.

    Attributes:
        steps_max: Most steps, None for no bound.
        out_of_time: Returns the elapsed share of the time, 1 or True once it is over; the core has no clock. A search divides
            its steps between its parts, but not its time: the clock changes results only once it is over.
        steps: How many steps were taken.
    """

    steps_max: int | None = None
    out_of_time: Callable[[], float] | None = None
    steps: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether no further step may be taken."""
        return (self.steps_max is not None and self.steps >= self.steps_max) or self.time_is_over

    @property
    def time_share(self) -> float:
        """The elapsed share of the time; zero without a clock."""
        return 0.0 if self.out_of_time is None else self.out_of_time()

    @property
    def time_is_over(self) -> bool:
        """Whether the time is over."""
        return self.time_share >= 1

    def is_past(self, share: float) -> bool:
        """Whether this share of the time has passed, so that a stage is left out. A clock that records such cuts records it."""
        is_past, clock = self.time_share >= share, cast("object", self.out_of_time)
        if is_past and isinstance(clock, RecordsCuts):
            clock.record_cut()
        return is_past

    @property
    def is_late(self) -> bool:
        """Whether so much of the time has passed that long steps are left out, even those that usually ignore it."""
        return self.is_past(LATE_SHARE)

    def check_late(self) -> None:
        """Give up the present step if it is late.

        Raises:
            TooLateError: If it is.
        """
        if self.is_late:
            raise TooLateError

    def step(self, *, ignore_time: bool = False) -> bool:
        """Take a step if one is left, and return whether it was taken.

        Args:
            ignore_time: Take it even if time is over: for the few short steps without which earlier work would be lost.
        """
        steps_are_spent = self.steps_max is not None and self.steps >= self.steps_max
        is_spent = steps_are_spent if ignore_time else self.is_spent
        self.steps += not is_spent
        return not is_spent

    def portion(self, share: float) -> SearchBudget:
        """Return a budget with this share of the remaining steps; the caller adds its steps to this one."""
        steps = None if self.steps_max is None else math.ceil((self.steps_max - self.steps) * share)
        return SearchBudget(steps, self.out_of_time)

    def leaving_time(self, share: float) -> SearchBudget:
        """Return a budget with all of the remaining steps, and what remains of the time but for this share of it."""
        if self.out_of_time is None:
            return self.portion(1)
        return msgspec.structs.replace(self.portion(1), out_of_time=_EarlierEnd(self.out_of_time, share))


class _EarlierEnd:
    """A clock for a part of what remains of another's time: a share of it is left for what follows."""

    def __init__(self, whole: Callable[[], float], share_left: float) -> None:
        self._whole = whole
        self._began = began = whole()
        self._length = (1 - began) * (1 - share_left)

    def __call__(self) -> float:
        """Return the elapsed share, 1 or more once the part is over."""
        share = (self._whole() - self._began) / self._length if self._length > 0 else 1.0
        if share >= 1:
            self.record_cut()
        return share

    def record_cut(self) -> None:
        """Record a cut with the other clock."""
        clock = cast("object", self._whole)
        if isinstance(clock, RecordsCuts):
            clock.record_cut()


# The tuning constants of plans of few nodes, of large zones and of fleets, groups of `search_settings`.


class ArithmeticBoundSettings(msgspec.Struct, frozen=True):
    """Lower bounds without a solver (`arithmetic_bound`)."""

    # Weights of two resources are multiples of 1 / weight_steps: finer ones take time in Python and raise the bound little.
    weight_steps: int = 4
    # Only so many resources are weighed against each other: the work grows with the cube of their number, which an author of
    # a pod chooses. Each weighting by itself gives a bound, so fewer of them only give a lower one.
    paired_resources_max: int = 12


class SteppedBoundSettings(msgspec.Struct, frozen=True):
    """The fluid relaxation with resources counted in whole steps (`relaxation.stepped`)."""

    # For each resource, the requests that carry most of it are steps, and their halves; none for the plain relaxation.
    requests_max: int = 6
    # With more items, no few requests carry most of a resource: the bound rises by nothing, and the program is slow.
    items_max: int = 120


class WholeMachineSettings(msgspec.Struct, frozen=True):
    """The integer program of whole machines (`problem.whole_machines`)."""

    # Gap at which it counts as solved, and its branch-and-bound nodes: a hundred are enough in most plans of few machines.
    gap_relative: float = 1e-4
    nodes_max: int = 300
    # Subtracted from the bound for the solver's tolerances, a millionth of any row.
    slack_relative: float = 1e-5


class WholeMachineBoundSettings(msgspec.Struct, frozen=True):
    """When whole machines bound the cost of a plan (`core.scheduling.fleet_rows.LowerBound`)."""

    # With more machines, their prices add up to nearly any cost.
    machines_max: int = 30
    # Cost over bound from which it is computed: it takes a third of the search.
    gap_relative_min: float = 2e-3
    # A thousand nodes prove that 1,000 pods on seven machines cost the least; the search's 300, in four fifths of the time,
    # leave 0.3 %.
    program: WholeMachineSettings = WholeMachineSettings(nodes_max=1_000)


class LargeZoneSettings(msgspec.Struct, frozen=True):
    """Zones of a plan that is split by zone, which share loads (`core.scheduling.optimization.repacker`)."""

    # A zone with at least this many machines in the fluid program begins with the loads of other zones. With fewer
    # machines, few loads are bought twice, and the same first columns lead every zone to the same dives.
    machines_min: int = 100
    # It fills fewer types, and rounds one pair of types: columns may have any type.
    column_pairs_max: int = 1_000
    pairs_rounded_max: int = 1
    # It passes on the loads that are worth at least this share of their price at its dual prices.
    value_for_price_min: float = 0.95
    # It generates columns until the program costs this much over the bound: what is saved beyond takes longer than all else of
    # the plan.
    stop_gap_relative: float = 0.035
    # Whether dives repeat while they save, and `DivingSettings.part_pods_min` for them.
    repeats_dives: bool = True
    part_pods_min: int = 0


class GreedyPricingSettings(msgspec.Struct, frozen=True):
    """Columns by greedy knapsacks (`column_generation.greedy_pricing`)."""

    # Noise on the logarithm of resource prices, one knapsack for each type and noise.
    price_noises_log: tuple[float, ...] = (0.0, 0.15, 0.3)
    # Columns of one round, the best first: more make the master problem slow and add little.
    columns_max: int = 80


class MasterProblemSettings(msgspec.Struct, frozen=True):
    """The master problem of column generation (`column_generation.master_problem`)."""

    # Whether the primal simplex continues from the last solution where only columns were added: it takes two fifths less
    # time. Only targets use it.
    continues_primal: bool = False


class LoadExchangeSettings(msgspec.Struct, frozen=True):
    """Exchanges of single pods in the loads of greedy knapsacks (`column_generation.load_exchange`)."""

    # How many loads of a round of pricing are improved, those with the most value for their price; only targets improve any.
    loads: int = 0
    # The most exchanges in one load: a machine's rest is mostly filled after three.
    exchanges_max: int = 10


class KeptMachineSettings(msgspec.Struct, frozen=True):
    """Dives after the first pack only the pods of some machines again (`column_generation.dive`)."""

    # Share of the machines that a dive keeps, those with the most value for their price, and the noise on this ratio; only
    # targets keep any.
    share: float = 0.0
    noise: float = 0.02
    # The least share of the other machines that each step of such a dive buys.
    bought_share_min: float = 0.5


class TargetSettings(msgspec.Struct, frozen=True):
    """Which nodes of a fleet stay, and where the pods of the others go (`core.packing.target`)."""

    # Rounds in which types join that are cheaper than the dual prices imply: each round raises the bound.
    rounds_max: int = 6
    # Types that join in one round.
    added_types_max: int = 12
    # Subtracted from the bound for rounding errors.
    bound_slack_relative: float = 1e-9
    # The most cells of nearly equal pods that the program distinguishes: it is then solved in a third of a second.
    cells_max: int = 120
    # Resolution of sizes in steps per factor of two: the finest that stays within cells_max.
    size_steps_per_doubling: tuple[float, ...] = (64.0, 8.0, 4.0, 2.0, 1.0, 0.5)
    # Share of fluid room that counts: whole pods never fill a node entirely.
    fill_share: float = 0.985
    # Types with the best value for their price, for each set of pods that may use the same types.
    next_best_types: int = 10
    # The cheapest types for CPU and for memory alone: which resource is short depends on the room that is filled.
    cheapest_types: int = 3
    # Least likeness of a gap to a pod that the program meant for a new machine or for a full group; tried in turn.
    likeness_min: tuple[float, ...] = (0.97, 0.9)
    # Weight of a node's free room beside its likeness to the pod: of two nodes with equal likeness, the fuller is filled.
    fullness_weight: float = 0.1
    # Added to a node's price per hour, nano-dollars, where nodes cover pods: otherwise cheap ones with one pod come first.
    cover_price: int = 20_000_000
    # Column generation packs a target's new nodes if they hold at most this many pods on average.
    coarse_pods_per_machine_max: int = 100
    # … and rounding is further than this above the bound: its nodes stay for long, and nobody waits for them.
    coarse_gap_relative: float = 0.004
    # … with loads whose rest is filled, and dives that keep most machines, in fleets of at least so many nodes.
    improved_loads_nodes_min: int = 50
    master_problem: MasterProblemSettings = MasterProblemSettings(continues_primal=True)
    load_exchange: LoadExchangeSettings = LoadExchangeSettings(loads=12)
    kept_machines: KeptMachineSettings = KeptMachineSettings(share=0.75)
    # Likeness compares only CPU and memory: places for pods are hardly ever short.
    shape_resources: int = 2


# A lower bound by arithmetic alone, for plans so small that loading a solver takes longer than planning.
#
# This module imports no numpy.


Offer = tuple[int, Sequence[int]]
"""Price in nano-dollars per hour, and capacity by resource."""


class OfferedItem(msgspec.Struct, frozen=True):
    """An item to pack, for bounds without arrays.

    Attributes:
        requests: By resource, what one pod takes.
        count: How many pods there are.
        offers: Every machine that one pod fits alone.
    """

    requests: Sequence[int]
    count: int
    offers: Sequence[Offer]


def arithmetic_bound(items: Iterable[OfferedItem], settings: ArithmeticBoundSettings) -> int:
    """Return a lower bound on the nano-dollars per hour of machines for these items: the better of two bounds.

    First, some machine holds the pod whose cheapest machine costs most, so all machines together cost at least that. Second, if
    every machine's price is spread over its resources by fixed weights w, each pod takes at least the part
    min over offers of Σ_r w_r · price · requests_r / capacity_r, and the parts of a machine's pods add up to at most its price.
    """
    narrowed = _with_requested_only(items)
    largest = max((min(price for price, _ in item.offers) for item in narrowed), default=0)
    totals: list[int] = []
    for item in narrowed:
        least = _least_parts(item.requests, item.offers, settings)
        totals = [total + item.count * part for total, part in zip(totals or [0] * len(least), least, strict=True)]
    return max([largest, *totals])


def _with_requested_only(items: Iterable[OfferedItem]) -> list[OfferedItem]:
    """Return the items without the resources that none of them requests: their parts are zero."""
    all_items = list(items)
    places = [r for r, column in enumerate(zip(*(item.requests for item in all_items), strict=True)) if any(column)]
    if all_items and len(places) == len(all_items[0].requests):
        return all_items
    return [
        OfferedItem(
            [item.requests[r] for r in places],
            item.count,
            [(price, [capacity[r] for r in places]) for price, capacity in item.offers],
        )
        for item in all_items
    ]


def _least_parts(requests: Sequence[int], offers: Sequence[Offer], settings: ArithmeticBoundSettings) -> list[int]:
    """Return for each weighting the smallest part of an offer's price that the pod takes, rounded down."""
    steps = settings.weight_steps
    weightings = _weightings(len(requests), steps, settings.paired_resources_max)
    least: list[int] = []
    for price, capacity in offers:
        shares = [
            price * wanted // offered if wanted else 0 for wanted, offered in zip(requests, capacity, strict=True)
        ]
        parts = [sum(weight * share for weight, share in zip(w, shares, strict=True)) // steps for w in weightings]
        least = [min(pair) for pair in zip(least, parts, strict=True)] if least else parts
    return least


def _weightings(resources: int, steps: int, paired: int) -> list[tuple[int, ...]]:
    """Return weights of resources in multiples of 1 / `steps`: all on one, or divided between two of the first `paired`."""
    weightings = [_weights(resources, {resource: steps}) for resource in range(resources)]
    for resource, other in combinations(range(min(resources, paired)), 2):
        weightings += [_weights(resources, {resource: part, other: steps - part}) for part in range(1, steps)]
    return weightings


def _weights(resources: int, parts: dict[int, int]) -> tuple[int, ...]:
    return tuple(parts.get(i, 0) for i in range(resources))


class FluidSettings(msgspec.Struct, frozen=True):
    """The fluid relaxation (`relaxation.fluid_lp`)."""

    # Subtracted from the bound for rounding errors in its evaluation: far above 2^-53 times any count of terms.
    bound_slack_relative: float = 1e-9
    # Up to this many pairs of item and type are solved directly, in about a third of a second. Beyond, like items are joined.
    pairs_max: int = 30_000
    # Resolution of sizes when like items are joined, in steps per factor of two: the finest that stays within pairs_max.
    size_steps_per_doubling: tuple[int, ...] = (16, 8, 4, 2, 1)
    # Types over which the program is usually solved, to estimate the pairs before it is known which types join.
    types_expected: int = 40
    # Rounds in which types join. If very many types cost the same for their capacity, further rounds gain next to nothing.
    rounds_max: int = 12
    # Elapsed share of the time after which no further round of the lower bound begins: the search needs the rest.
    time_share_max: float = 0.4
    # Cost over the proven bound at which no further types join (a hundred-thousandth; rounding cannot use more).
    stop_gap_relative: float = 1e-5


class ActiveTypeSettings(msgspec.Struct, frozen=True):
    """Which types the fluid relaxation is solved over (`relaxation.active_types`)."""

    # First types, evenly from the cheapest to the most expensive, besides the best type for each single item.
    initial_types: int = 12
    # Types that join in one round: more make the program degenerate and slow.
    added_types_max: int = 10
    # Types that join in one round differ in price by at least this factor: types of similar price improve the same items.
    added_price_ratio_min: float = 1.1
    # A type joins if an item would pay less there than its dual price by more than this share; the bound allows for it.
    reduced_cost_tolerance_relative: float = 1e-4
    # Dual prices below this, in prices of the most expensive type, count as zero.
    item_value_min: float = 1e-12


class LaunchFlexibilitySettings(msgspec.Struct, frozen=True):
    """Machines as small as the smallest of a bundle of like types (`relaxation.launch_flexibility`, `.preparation`)."""

    # Types in a bundle: a launch should have at least fifteen alternatives.
    bundle_types: int = 16
    # The highest price in a bundle, as a multiple of the price of the type that it is built around.
    bundle_price_ratio_max: float = 1.45
    # The share by which the other types of a bundle may be smaller, in any resource.
    smaller_share_max: float = 0.1
    # The most that bundles may cost in the fluid relaxation; beyond, types keep their own capacities.
    cost_relative_max: float = 0.01
    # With fewer machines, or fewer pods on each, there are no bundles: rounding to them costs 1 to 4 % there.
    machines_min: int = 40
    pods_per_machine_min: int = 20


class ValuePackingSettings(msgspec.Struct, frozen=True):
    """Greedy knapsacks by value (`heuristics.value_packing`)."""

    # Ways of weighing resources against each other that are tried with each type.
    directions: int = 8
    # Weight of every resource but the first two requested ones in the first half of the directions: they break ties.
    minor_resource_weight: float = 0.03
    # Standard deviation of the logarithm of the random weights in the second half of the directions.
    weight_deviation_log: float = 1.5


class RoundingSettings(msgspec.Struct, frozen=True):
    """Guided rounding of the fluid relaxation (`heuristics.guided_rounding`)."""

    # Types of which the relaxation buys fewer machines than this are not rounded; packing by value takes their pods.
    support_machines_min: float = 0.25
    # A step of a cut is one machine, or this share of the type's machines if that is more.
    cut_step_share: float = 0.006
    # Cuts leave out 0 … cut_steps - 1 steps of each of the cut_types most bought types; cuts_max of them are tried.
    cut_types: int = 3
    cut_steps: int = 4
    cuts_max: int = 12
    # For the last pods: weight of a machine's largest free share, beside the likeness of its free capacity to the pod.
    free_share_weight: float = 0.3
    # Added to fluid amounts before they are rounded down: the solver's whole numbers are a little too small.
    integrality_tolerance: float = 1e-6
    pod_integrality_tolerance: float = 1e-7


class TwoTypeSettings(msgspec.Struct, frozen=True):
    """Rounding over two types at a time (`heuristics.two_type_rounding`)."""

    # Types below and above the average machine's price that are paired.
    cheaper_types: int = 3
    expensive_types: int = 4
    # Pairs whose own fluid relaxation costs more than this share above the bound are not rounded.
    loss_relative_max: float = 0.005
    # Pairs to round: column generation begins with their loads, and finds as much with three pairs as with twelve.
    pairs_rounded_max: int = 3
    # After this many pairs above loss_relative_max, no others are tried: prices are then not proportional to capacity.
    pairs_lost_max: int = 3


class FewMachinesSettings(msgspec.Struct, frozen=True):
    """The cheapest mix of a few machines (`heuristics.few_machines`)."""

    # With more machines in the relaxation, or more items, other stages come as near, and exchanges take too long.
    machines_max: int = 30
    items_max: int = 150
    # Share of each resource that a mix must offer beside what pods request, tried in turn until all pods have a place.
    spare_shares: tuple[float, ...] = (0.0, 0.001, 0.004)
    whole_machines: WholeMachineSettings = WholeMachineSettings()
    # Portions per machine in which an item's pods are placed at first.
    portions_per_machine: int = 3
    # The most exchanges for one mix, and for how many the pods of one do not go back.
    exchanges_max: int = 120
    tabu_steps: int = 30
    # Weight of the sum of what a machine lacks, beside the resource that it lacks most of: either alone gets stuck.
    sum_weight: float = 0.3


class BeamPricingSettings(msgspec.Struct, frozen=True):
    """Columns by beam search (`column_generation.beam_pricing`)."""

    # Partial loads that are kept after each decision: in total, and for each type.
    states_max: int = 6_000
    states_per_type_max: int = 400
    # Types in one search: those with the highest bound on value for price.
    types_max: int = 40
    # Amounts of an item that are tried, counted from the one that resource prices suggest.
    amounts_tried: int = 6
    # Columns that are returned for each type.
    columns_per_type_max: int = 2


class ColumnGenerationSettings(msgspec.Struct, frozen=True):
    """Column generation (`column_generation.generation`)."""

    # A column joins only if its value is at least this many times its price: reduced costs nearer to zero are noise.
    value_per_price_min: float = 1 + 1e-5
    # Weight of the best proven dual prices against the latest ones (Wentges smoothing), which oscillate on their own.
    smoothing: float = 0.4
    # Rounds in a row without a new column that end it; after the first, the latest dual prices are used without smoothing.
    idle_rounds_max: int = 2
    # It also ends when this many rounds together save less than this share.
    stalled_rounds: int = 6
    saving_relative_min: float = 3e-4
    # Cost of the master over the bound at which it ends.
    stop_gap_relative: float = 5e-4
    # Share of the budget that it may use: a fractional solution is useless until it is rounded (three fifths).
    budget_share: float = 0.6


class DivingSettings(msgspec.Struct, frozen=True):
    """Diving for whole columns (`column_generation.dive`)."""

    # The least share of the machines that each step of a dive buys; successive dives take these shares in turn.
    bought_shares_min: tuple[float, ...] = (0.3, 0.1, 0.02)
    # Dives in a row without a saving that end it.
    idle_dives_max: int = 3
    # With more items, beam search is not used: a round takes ten times as long as greedy ones, and saves a thousandth at most.
    beam_items_max: int = 60
    # Where pods can be combined in at most so many ways, all loads are columns: with a dozen pods, plans are then optimal.
    combinations_max: int = 2_000
    # There, and for so few pods, an integer program over all columns follows the dives; its gap, and branch-and-bound nodes.
    whole_pods_max: int = 100
    whole_gap_relative: float = 5e-4
    whole_nodes_max: int = 1
    # Of a column that is rounded up, only the part in the solution is bought, as a machine of that size, if it has so many
    # pods; zero for whole loads alone.
    part_pods_min: int = 0
    # … and the last pods get one machine once it costs at most this much more than the program.
    last_machine_relative_max: float = 0.01
    # Rounds of pricing for the remaining pods, in each step of a dive.
    pricing_rounds: int = 2
    # Cost over the bound at which diving stops.
    stop_gap_relative: float = 5e-4
    # Added to amounts of columns and substitutions before rounding: the solver's whole numbers are a little too small.
    integrality_tolerance: float = 1e-6


class DualBoundSettings(msgspec.Struct, frozen=True):
    """The lower bound from column generation (`column_generation.dual_bound`)."""

    # Rounds in which dual prices are corrected by columns with more value than price.
    rounds_max: int = 12
    # If value / price is at most 1 plus this, no type's knapsack is solved exactly.
    stop_gap_relative: float = 1e-3
    # Branch-and-bound nodes for one knapsack: its bound holds even if the solution is not optimal.
    knapsack_nodes_max: int = 2_000
    # Gap at which a knapsack counts as solved; also added to its bound for the solver's tolerances.
    knapsack_gap_relative: float = 1e-5
    # The right-hand side of a knapsack's rows: the solver's absolute tolerance of a millionth is then a byte of a terabyte.
    knapsack_row_scale: float = 1e6


class StageSettings(msgspec.Struct, frozen=True):
    """Which stages of the search run (`optimize`)."""

    # Cost over bound at which rounding the fluid relaxation stops.
    stop_gap_relative: float = 1e-3
    # Column generation runs if rounding is further than this above the bound, machines hold at most this many pods …
    coarse_gap_relative: float = 0.02
    coarse_pods_per_machine_max: int = 30
    # … and there are at most this many items: with more, packing by value, which completes its dives, takes seconds.
    coarse_items_max: int = 600
    # With more pairs of item and type, only the most promising types are used, at least so many: more of them gain nothing.
    column_pairs_max: int = 3_000
    column_types_min: int = 8
    # Roundings that are tried even if time is over: they take hundredths of a second and bring most of the saving.
    roundings_sure: int = 4
    # With more items they take seconds, and are left out or given up shortly before time is over.
    sure_items_max: int = 1_000
    # … nor is a search of more items begun after this share of the time: it takes more than half of a second by itself.
    long_begins_share_max: float = 0.4


class OptimizerSettings(msgspec.Struct, frozen=True):
    """When a greedy plan is searched at all (`core.scheduling.planner`)."""

    # With fewer pods and fewer claims, the greedy plan stands unless its cost is far above the bound by arithmetic.
    pods_min: int = 30
    claims_min: int = 2
    # Far means: cost over bound from which loading the solver is worthwhile for a few pods, as numerator and denominator.
    far_cost_ratio: tuple[int, int] = (6, 5)
    # With more pairs of item and type, arithmetic in Python takes longer than loading the solver.
    arithmetic_pairs_max: int = 6_000
    # Default steps of a search: fewer for more nodes (5 ms each with 10, 20 ms with 200), enough for columns in three zones.
    default_steps_machines: int = 5_000
    default_steps_offset: int = 40
    default_steps_min: int = 60
    # … in plans with groups that start together.
    default_steps_min_with_groups: int = 90
    # At least as many for each NodePool with new nodes: each is searched by itself, and columns take twenty steps.
    default_steps_per_pool: int = 20
    # With more cells of item and type, the lower bound takes seconds: it is built after the search, and only if less than this
    # share of the time has passed by then.
    bound_cells_sure: int = 1_000_000
    bound_begins_share_max: float = 0.3
    # How many groups with hostname anti-affinity, the largest ones, are resources in the lower bound: each widens every array.
    bound_hostname_groups_max: int = 4


class RepackSettings(msgspec.Struct, frozen=True):
    """From claims to packing problems and back (`core.scheduling.optimization`)."""

    # The most sets of pods that must stay together in one search: each set is a separate item.
    fixed_items_max: int = 300
    # Up to this many pairs of packing item and type, all zones are one problem; beyond, each zone is a separate problem.
    joint_pairs_max: int = 20_000
    # Shares of the steps for a trial of each model of a drained fleet, and of the rest for a restart of the better.
    way_trial_share: float = 0.05
    restart_share: float = 0.75
    # Rounds in which a subproblem is searched; each begins with the previous result and another seed.
    rounds_max: int = 20
    # With more subproblems, those whose turn is late are not searched: each takes hundredths of a second.
    sure_subproblems_max: int = 12
    # Cost over bound at which a subproblem is not searched again.
    stop_gap_relative: float = 1e-3
    # How many hostname groups, those that need the most machines, are resources of a problem: each widens every array.
    hostname_resources_max: int = 12
    # A group that needs less than 1 / hostname_machines_divisor of the widest group's machines is no resource: it finds them.
    hostname_machines_divisor: int = 4
    # A machine gets this many pods that obey groups with other members: such groups over the first, at least the second.
    interdependent_groups_divisor: int = 3
    interdependent_per_machine_min: int = 2
    # The most that an even mix of items in every zone may cost over the best mix, which rounds worse: its zones have few items.
    even_zones_cost_relative_max: float = 2e-3
    # In zones with equal types, an even mix is not priced if no zone's parts of resources differ by more than this.
    even_zones_difference_max: float = 0.05
    # Corrections that give every zone the same mix of resources: one is exact unless it makes a share negative.
    zone_balance_rounds: int = 4
    # In floating point, shares times pods may be this much below a whole number.
    whole_pods_slack_relative: float = 1e-9
    # Pods are counted in hundredths when a bound is computed for shares of them.
    zone_share_steps_per_pod: int = 100
    # With more cells of item and type in all zones, items are divided by size: the program would take all the time of the plan.
    zone_program_cells_max: int = 1_000_000
    # With more item groups the cells are not even counted: that alone takes a second.
    zone_program_items_max: int = 5_000
    # With fewer zones, nothing is split.
    zones_min: int = 2
    # The most items without a place for which another item is moved: each attempt examines all machines.
    exchanged_items_max: int = 400
    # The most machines that are tried at a larger size for an item that fits no free capacity.
    enlarged_machines_max: int = 60
    # A claim keeps types up to this multiple of its cheapest type's price, as numerator and denominator …
    claim_price_ratio_max: tuple[int, int] = (3, 2)
    # … and at least this many types, even more expensive ones: with few types, a launch fails more often.
    claim_types_min: int = 30


class SearchSettings(msgspec.Struct, frozen=True):
    """All groups of settings; `DEFAULT_SETTINGS` is the only instance outside of tests."""

    arithmetic_bound: ArithmeticBoundSettings = msgspec.field(default_factory=ArithmeticBoundSettings)
    fluid: FluidSettings = msgspec.field(default_factory=FluidSettings)
    active_types: ActiveTypeSettings = msgspec.field(default_factory=ActiveTypeSettings)
    launch_flexibility: LaunchFlexibilitySettings = msgspec.field(default_factory=LaunchFlexibilitySettings)
    value_packing: ValuePackingSettings = msgspec.field(default_factory=ValuePackingSettings)
    rounding: RoundingSettings = msgspec.field(default_factory=RoundingSettings)
    two_type: TwoTypeSettings = msgspec.field(default_factory=TwoTypeSettings)
    few_machines: FewMachinesSettings = msgspec.field(default_factory=FewMachinesSettings)
    greedy_pricing: GreedyPricingSettings = msgspec.field(default_factory=GreedyPricingSettings)
    beam_pricing: BeamPricingSettings = msgspec.field(default_factory=BeamPricingSettings)
    column_generation: ColumnGenerationSettings = msgspec.field(default_factory=ColumnGenerationSettings)
    diving: DivingSettings = msgspec.field(default_factory=DivingSettings)
    master_problem: MasterProblemSettings = msgspec.field(default_factory=MasterProblemSettings)
    load_exchange: LoadExchangeSettings = msgspec.field(default_factory=LoadExchangeSettings)
    kept_machines: KeptMachineSettings = msgspec.field(default_factory=KeptMachineSettings)
    dual_bound: DualBoundSettings = msgspec.field(default_factory=DualBoundSettings)
    stepped_bound: SteppedBoundSettings = msgspec.field(default_factory=SteppedBoundSettings)
    whole_machine_bound: WholeMachineBoundSettings = msgspec.field(default_factory=WholeMachineBoundSettings)
    stages: StageSettings = msgspec.field(default_factory=StageSettings)
    optimizer: OptimizerSettings = msgspec.field(default_factory=OptimizerSettings)
    repack: RepackSettings = msgspec.field(default_factory=RepackSettings)
    large_zones: LargeZoneSettings = msgspec.field(default_factory=LargeZoneSettings)
    # Plans with groups that start together: they may take longer, and one dive that buys parts ends near the program's cost
    # (docs/engineering/handbook/packing.md).
    large_zones_with_groups: LargeZoneSettings = LargeZoneSettings(
        stop_gap_relative=0.015, repeats_dives=False, part_pods_min=12
    )
    target: TargetSettings = msgspec.field(default_factory=TargetSettings)


DEFAULT_SETTINGS: Final = SearchSettings()


def with_groups(settings: SearchSettings) -> SearchSettings:
    """Return the settings for a plan with groups that start together."""
    steps_min = settings.optimizer.default_steps_min_with_groups
    optimizer = msgspec.structs.replace(settings.optimizer, default_steps_min=steps_min)
    return msgspec.structs.replace(settings, large_zones=settings.large_zones_with_groups, optimizer=optimizer)
