"""The tuning constants of plans of few nodes, of large zones and of fleets, groups of `search_settings`."""

from __future__ import annotations

import msgspec


class ArithmeticBoundSettings(msgspec.Struct, frozen=True):
    """Lower bounds without a solver (`arithmetic_bound`)."""

    # Weights of two resources are multiples of 1 / weight_steps: finer ones take time in Python and raise the bound little.
    weight_steps: int = 4


class WholeMachineBoundSettings(msgspec.Struct, frozen=True):
    """The lower bound from whole machines (`whole_machine_bound`, ADR 264)."""

    # With more machines, their prices add up to nearly any cost.
    machines_max: int = 30
    # Cost over bound from which it is computed: it takes as long as a tenth of the search.
    gap_relative_min: float = 0.01
    # Gap at which the integer program counts as solved, and its branch-and-bound nodes: the root's cuts raise the bound most.
    gap_relative: float = 1e-3
    nodes_max: int = 1
    # Subtracted from the bound for the solver's tolerances, a millionth of any row.
    slack_relative: float = 1e-5


class LargeZoneSettings(msgspec.Struct, frozen=True):
    """Zones of a plan that is split by zone, which share loads (`core.scheduling.optimization.search_schedule`)."""

    # A zone with at least this many machines in the fluid program begins with the loads of other zones (ADR 218). With fewer
    # machines, few loads are bought twice, and the same first columns lead every zone to the same dives.
    machines_min: int = 100
    # It fills fewer types, and rounds one pair of types: columns may have any type.
    column_pairs_max: int = 1_000
    pairs_rounded_max: int = 1
    # It passes on the loads that are worth at least this share of their price at its dual prices (ADR 261).
    value_for_price_min: float = 0.95
    # It generates columns until the program costs this much over the bound: what is saved beyond takes longer than all else of
    # the plan (ADR 261).
    stop_gap_relative: float = 0.035


class GreedyPricingSettings(msgspec.Struct, frozen=True):
    """Columns by greedy knapsacks (`column_generation.greedy_pricing`)."""

    # Noise on the logarithm of resource prices, one knapsack for each type and noise.
    price_noises_log: tuple[float, ...] = (0.0, 0.15, 0.3)
    # Columns of one round, the best first: more make the master problem slow and add little.
    columns_max: int = 80


class MasterProblemSettings(msgspec.Struct, frozen=True):
    """The master problem of column generation (`column_generation.master_problem`, ADR 276)."""

    # Whether the primal simplex continues from the last solution where only columns were added: it takes two fifths less
    # time. Only targets use it.
    continues_primal: bool = False


class LoadExchangeSettings(msgspec.Struct, frozen=True):
    """Exchanges of single pods in the loads of greedy knapsacks (`column_generation.load_exchange`, ADR 275)."""

    # How many loads of a round of pricing are improved, those with the most value for their price; only targets improve any.
    loads: int = 0
    # The most exchanges in one load: a machine's rest is mostly filled after three.
    exchanges_max: int = 10


class KeptMachineSettings(msgspec.Struct, frozen=True):
    """Dives after the first pack only the pods of some machines again (`column_generation.dive`, ADR 275)."""

    # Share of the machines that a dive keeps, those with the most value for their price, and the noise on this ratio; only
    # targets keep any.
    share: float = 0.0
    noise: float = 0.02
    # The least share of the other machines that each step of such a dive buys.
    bought_share_min: float = 0.5


class TargetSettings(msgspec.Struct, frozen=True):
    """Which nodes of a fleet stay, and where the pods of the others go (`core.packing.target`, ADR 44)."""

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
    # Column generation packs a target's new nodes if they hold at most this many pods on average (ADR 259).
    coarse_pods_per_machine_max: int = 100
    # … and rounding is further than this above the bound: its nodes stay for long, and nobody waits for them (ADR 269).
    coarse_gap_relative: float = 0.004
    # … with loads whose rest is filled, and dives that keep most machines, in fleets of at least so many nodes (ADR 275, 276).
    improved_loads_nodes_min: int = 50
    master_problem: MasterProblemSettings = MasterProblemSettings(continues_primal=True)
    load_exchange: LoadExchangeSettings = LoadExchangeSettings(loads=12)
    kept_machines: KeptMachineSettings = KeptMachineSettings(share=0.75)
    # Likeness compares only CPU and memory: places for pods are hardly ever short.
    shape_resources: int = 2
