"""Settings of an installation, defined once: `infra/` writes the environment from here and the functions read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar

import msgspec

from core.approval.proposal import ApprovalRule, rule_from
from core.errors import InvalidInputError
from core.model.pod import TopologySpread
from core.model.snapshot import LEAST_ALLOCATED, Options, parse_feature_gates
from core.model.values.quantity import nanodollars
from core.model.values.quotas import SizingSettings, settings_from

if TYPE_CHECKING:
    from core.price_terms import PriceTerms

T = TypeVar("T")
Text = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]


APPROVE: Final = "approve"
SHADOW: Final = "shadow"
OFF: Final = "off"
ON: Final = "on"
PODS_A_TURN: Final = 500
TURNS_MAX: Final = 5
"""The most multiples of the base search time: a longer search may save more for many pods, and a node takes half a minute to
boot."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. The environment variable of a field is its name in capitals.

    Attributes:
        cluster_name: The EKS cluster.
        table_name: The DynamoDB table with claims, commands and leases.
        bucket_name: The bucket with the ledger.
        wake_up_queue_url: The queue that wakes `provision`.
        work_queue_url: The queue of claims and commands that have a next step, for `execute`.
        look_queue_url: The queue that wakes `disrupt`.
        schedule_group: Where NodePools' budget windows become schedules.
        schedule_role_arn: The role under which those schedules wake a function.
        parts_machine_arn: The state machine that has functions decide about the parts of a large cluster; empty: none.
        disrupt_function_arn: The function that they wake; without one they are left out, and the slow schedule does their work.
        shared_table_name: The table in which the clusters of the account and region note where EC2 had no capacity; empty:
            `table_name`.
        shared_bucket_name: The bucket with their common reading of instance types and prices; empty: `bucket_name`.
        kill_switch_parameter: Name of the SSM parameter that says `run`, `pause-disruption` or `stop`; empty: no kill switch.
        pausing_alarms: Names of CloudWatch alarms, a line each, that pause voluntary disruption while one is in ALARM.
        zonal_shift_cluster_arn: ARN of the cluster whose zonal shifts pause voluntary disruption; empty: none are read.
        feature_gates: As Karpenter reads them: `Name=true,Other=false`.
        price_terms: Discounts, licences, public addresses and commitments as JSON (`docs/how-to/price-terms.md`); empty: EC2's
            list prices.
        scheduler_config: The cluster's default topology spread constraints and scoring strategy as JSON: Karpenter's
            scheduler-config, EKS's kubeSchedulerConfig, or kube-scheduler's own configuration.
        preference_policy: `Respect` counts pods' preferences; `Ignore` treats them as absent.
        min_values_policy: With fewer values than a NodePool's minValues on offer, `BestEffort` launches and `Strict` waits.
        rebalance_policy: On a rebalance recommendation, `drain` the node or `ignore` it (Karpenter).
        batch_idle_seconds: A plan waits until no pod has become pending for so long; 0: it does not wait.
        batch_max_seconds: How long it waits for that at most.
        launches_per_run: How many instances one run of `provision` launches itself; `execute` launches the others.
        plan_rounds: How often one run plans again after EC2 had no capacity.
        nominate_pods: Nominate pending pods for their node when it registers, so that kube-scheduler tries it
            first (Kubernetes' NominatedNodeNameForExpectation).
        bind_pods: Bind pending pods to their planned node, and keep kube-scheduler off it meanwhile; other pods are nominated.
            Turn it off if the cluster's scheduler has filters of its own.
        mirror_node_claims: Show every claim in the cluster as a NodeClaim, like Karpenter's. Deleting one drains its node and
            terminates its instance.
        surge_restarts: Restart a Deployment of one replica if its budget allows no eviction, so that the new pod is up before
            the old one ends; only for pods with `fleetwright.dev/surge: "true"`.
        steer_scale_in: Give ReplicaSets' pods a low deletion cost on nodes that consolidation drains next, so that scale-in
            removes them first; users' own costs stay.
        evictions_per_hour: How many pods consolidation and drift may evict in any hour, together; None: any number. A
            NodePool's annotation `fleetwright.dev/evictions-per-hour` sets its own ceiling besides.
        shrink_percent: The share of a NodePool's vCPUs that consolidation and drift may remove within an hour, in percent;
            100: any. With `mode: approve`, commands beyond it wait for approval.
        part_nodes: The most nodes that consolidation plans together; a larger cluster is divided between NodePools that share
            no pods (`core.disruption.decision`). None: never.
        distribute_from: In a cluster of more nodes, Step Functions has a function of its own decide about each of those parts,
            since one invocation cannot hold them all. None: never.
        validate_launches: Ask EC2 with DryRun if it would launch from each EC2NodeClass. Turn it off if an organization's
            policy denies such requests, but not launches (Karpenter's DISABLE_DRY_RUN).
        launch_tokens: How many instances EC2 lets the account and region launch at once (its resource limit of RunInstances).
            A launch waits until there is a token for each of its instances.
        launch_tokens_per_second: How many more it lets them launch each second.
        termination_tokens: How many instances it lets them terminate at once (TerminateInstances).
        termination_tokens_per_second: How many more each second.
        poll_seconds: How soon `provision` runs again while pods wait for something.
        look_seconds: How often `provision` looks for waiting pods between two scheduled runs, without any audit log; 0: not at
            all. For clusters whose audit log comes late (EKS promises "a few minutes").
        vm_memory_overhead_percent: The share of memory that the hypervisor keeps, as a decimal (Karpenter's setting).
        reserved_enis: How many network interfaces of each node are not for pods (Karpenter's setting).
        improve_milliseconds: How much processor time may go into improving a plan after the first one, as much again for every
            500 pods, at most five times as much; it takes four times as long at most. 0: none.
        improve_iterations: Bound on the optimiser's steps, for repeatable runs; None: bounded by the clock.
        keep_ledger: Store decisions in the bucket before they are carried out. Without it, none can be explained or replayed
            later.
        mode: `act`, or `approve`: commands of `disrupt` beyond one of the next three bounds wait for `fleetwright approve`;
            every command if none is set. Replacing unhealthy nodes, expiry and interruptions never wait. `shadow`: nothing is
            carried out, and no role may; what would be done beside Karpenter is recorded.
        approve_above_dollars: Commands whose nodes cost more dollars per hour together wait.
        approve_above_nodes: Commands of more nodes wait.
        approve_namespaces: Commands that move pods of these namespaces wait; names or patterns such as `core-*`, with commas.
        approval_topic_arn: The SNS topic on which they are announced; empty: events and `fleetwright status` tell of them.
        forecast: Keep room ahead of recurring ramps: `on`; `shadow`: only record the launches for it; `off`.
        forecast_time_zone: The IANA zone of the ramps.
        forecast_dollars_per_hour: The highest cost of the room of all NodePools together.
        command_topic_arn: The SNS topic that gets one message for each run of `disrupt` that stores commands; empty: none.
    """

    cluster_name: Text
    table_name: Text
    bucket_name: Text
    wake_up_queue_url: Text
    work_queue_url: Text
    look_queue_url: Text
    schedule_group: Text
    schedule_role_arn: Text
    parts_machine_arn: str = ""
    disrupt_function_arn: str = ""
    shared_table_name: str = ""
    shared_bucket_name: str = ""
    kill_switch_parameter: str = ""
    pausing_alarms: str = ""
    zonal_shift_cluster_arn: str = ""
    feature_gates: str = ""
    price_terms: str = ""
    scheduler_config: str = ""
    preference_policy: Literal["Respect", "Ignore"] = "Respect"
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    rebalance_policy: Literal["ignore", "drain"] = "ignore"
    batch_idle_seconds: Annotated[int, msgspec.Meta(ge=0)] = 1
    batch_max_seconds: Annotated[int, msgspec.Meta(ge=0)] = 10
    launches_per_run: Count = 1000
    plan_rounds: Count = 3
    nominate_pods: bool = True
    bind_pods: bool = True
    mirror_node_claims: bool = True
    surge_restarts: bool = False
    steer_scale_in: bool = False
    evictions_per_hour: Annotated[int, msgspec.Meta(ge=0)] | None = None
    shrink_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 50
    part_nodes: Count | None = None
    distribute_from: Count | None = None
    validate_launches: bool = True
    launch_tokens: Count = 1000
    launch_tokens_per_second: Count = 2
    termination_tokens: Count = 1000
    termination_tokens_per_second: Count = 20
    poll_seconds: Count = 10
    look_seconds: Annotated[int, msgspec.Meta(ge=0, le=59)] = 0
    vm_memory_overhead_percent: str = "0.075"
    reserved_enis: Annotated[int, msgspec.Meta(ge=0)] = 0
    improve_milliseconds: Annotated[int, msgspec.Meta(ge=0)] = 1000
    improve_iterations: int | None = None
    keep_ledger: bool = True
    mode: Literal["act", "approve", "shadow"] = "act"
    approve_above_dollars: str = ""
    approve_above_nodes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    approve_namespaces: str = ""
    approval_topic_arn: str = ""
    forecast: Literal["off", "shadow", "on"] = "off"
    forecast_time_zone: str = "UTC"
    forecast_dollars_per_hour: str = "1"
    command_topic_arn: str = ""

    @property
    def is_shadow(self) -> bool:
        """Whether decisions are only recorded, in the whole cluster."""
        return self.mode == SHADOW

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings.

        Raises:
            InvalidInputError: If a setting is missing or invalid; `field` is the environment variable.
        """
        text_by_field = {
            field: environment[field.upper()]
            for field in cls.__struct_fields__
            if environment.get(field.upper(), "") != ""
        }
        for field in cls.__struct_fields__[:7]:
            if field not in text_by_field:
                raise InvalidInputError("is not set", subject="environment", field=field.upper())
        try:
            settings = msgspec.convert(text_by_field, cls, strict=False)
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at `$.")
            raise InvalidInputError(problem, subject="environment", field=path.rstrip("`").upper()) from error
        parse_feature_gates(settings.feature_gates)
        parse_default_spreads(settings.scheduler_config)
        parse_scoring(settings.scheduler_config)
        settings.terms()
        settings.sizing()
        settings.approval_rule()
        if settings.forecast != OFF:
            settings.forecast_amount()
        return settings

    def to_environment(self) -> dict[str, str]:
        """Return the variables that `from_environment` reads; settings without a value are left out."""
        values = {field: getattr(self, field) for field in self.__struct_fields__}
        return {field.upper(): str(value) for field, value in values.items() if value not in (None, "")}

    def sizing(self) -> SizingSettings:
        """Return how nodes are sized.

        Raises:
            InvalidInputError: If the memory overhead is not a fraction.
        """
        return settings_from(
            vm_memory_overhead_percent=self.vm_memory_overhead_percent, reserved_enis=self.reserved_enis
        )

    def terms(self) -> PriceTerms | None:
        """Return the price terms, None if there are none.

        Raises:
            InvalidInputError: If they cannot be read.
        """
        if not self.price_terms:
            return None
        from core.price_terms import read_terms  # loads AMI families, which most functions do not need

        try:
            return read_terms(self.price_terms)
        except InvalidInputError as error:
            problem = ": ".join(part for part in (error.field, error.problem) if part)
            raise InvalidInputError(problem, subject="environment", field="PRICE_TERMS") from error

    def approval_rule(self) -> ApprovalRule | None:
        """Return which commands wait for approval, None if none does.

        Raises:
            InvalidInputError: If a bound is not a number.
        """
        rule = rule_from(
            above_dollars=self.approve_above_dollars,
            above_nodes=self.approve_above_nodes,
            namespaces=self.approve_namespaces,
        )
        return msgspec.structs.replace(rule, shrink_percent=self.shrink_percent) if self.mode == APPROVE else None

    def forecast_amount(self) -> int:
        """Return what forecast room may cost an hour, in nano-dollars.

        Raises:
            InvalidInputError: If the zone or the amount is none, or no ledger is kept to learn from.
        """
        from core.calendars import zone  # most installations forecast nothing

        try:
            zone(self.forecast_time_zone)
        except InvalidInputError as error:
            raise InvalidInputError(error.problem, subject="environment", field="FORECAST_TIME_ZONE") from error
        field = "FORECAST_DOLLARS_PER_HOUR"
        try:
            amount = nanodollars(self.forecast_dollars_per_hour)
        except InvalidInputError as error:
            raise InvalidInputError(error.problem, subject="environment", field=field) from error
        if amount <= 0:
            raise InvalidInputError("is not an amount above 0", subject="environment", field=field)
        if not self.keep_ledger:
            raise InvalidInputError("needs the ledger (KEEP_LEDGER)", subject="environment", field="FORECAST")
        return amount

    def improving(self, pods: int) -> timedelta:
        """Return how long the plan for this many pods may be improved."""
        return timedelta(milliseconds=self.improve_milliseconds * min(TURNS_MAX, 1 + pods / PODS_A_TURN))

    @property
    def steers_scale_in(self) -> bool:
        """Whether `steerScaleIn` is on, or Karpenter's gate for the same, PodDeletionCostManagement."""
        return self.steer_scale_in or parse_feature_gates(self.feature_gates).gates.pod_deletion_cost_management

    def options(self) -> Options:
        """Return the core's options for a live cluster."""
        terms = self.terms()
        return Options(
            preference_policy=self.preference_policy,
            min_values_policy=self.min_values_policy,
            feature_gates=parse_feature_gates(self.feature_gates).gates,
            default_spreads=parse_default_spreads(self.scheduler_config),
            scoring=parse_scoring(self.scheduler_config),
            requires_unschedulable_mark=True,
            evictions_per_hour=self.evictions_per_hour,
            shrink_percent=None if self.mode == APPROVE or self.shrink_percent == 100 else self.shrink_percent,
            part_nodes=self.part_nodes,
            ranks_by_own_prices=terms is not None and terms.reorder,
            dedicated_ppm=terms.dedicated_ppm if terms is not None else 0,
            commitments=terms.commitments if terms is not None else (),
            improve_iterations=self.improve_iterations if self.improve_milliseconds else 0,
        )


def problem_of(field: str, value: str) -> str:
    """Return what is wrong with one setting's value, as the functions would report it at their start; empty if it is valid."""
    required = {field_info.name.upper(): "-" for field_info in msgspec.structs.fields(Settings) if field_info.required}
    try:
        Settings.from_environment({**required, field.upper(): value})
    except InvalidInputError as error:
        return error.problem
    return ""


def parse_default_spreads(text: str) -> tuple[TopologySpread, ...]:
    """Return the cluster's default spread constraints; none for an empty text.

    Raises:
        InvalidInputError: If it is not JSON, or not a scheduler configuration.
    """
    if not text:
        return ()
    # loads the readers of pods, which most functions do not need
    from core.manifests.scheduler_config import default_spreads

    return _of_scheduler(text, default_spreads)


def parse_scoring(text: str) -> str:
    """Return kube-scheduler's scoring strategy; its default for an empty text. Raises as `parse_default_spreads`."""
    if not text:
        return LEAST_ALLOCATED
    from core.manifests.scheduler_config import scoring

    return _of_scheduler(text, scoring)


def _of_scheduler(text: str, read: Callable[[object], T]) -> T:
    try:
        return read(msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"is not JSON: {error}", field="SCHEDULER_CONFIG") from error
    except InvalidInputError as error:
        raise InvalidInputError(f"{error.field}: {error.problem}", field="SCHEDULER_CONFIG") from error
