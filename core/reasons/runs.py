"""Reasons concerning a function's own run, and failed calls."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Final

import msgspec

from core.reasons.code import DocumentedCode, ReasonCode, Refusal, Stated

# Results of a drain.


class DrainReason(ReasonCode):
    """Results of a drain."""

    SLOW = ("DrainSlow", "No pod has left the node for 5 minutes; the events of its pods say why.")
    BLOCKED = (
        "DrainBlocked",
        "No pod has left the node for 15 minutes.",
        "Read the message: it names the pod or volume that blocks the drain.",
    )
    LASTING = (
        "DrainLasting",
        "No pod has left the node for an hour; the drain is cancelled if the node may stay.",
        "Read the message: it names the pod or volume that blocks the drain.",
    )
    ALARMING = (
        "DrainAlarming",
        "No pod has left the node for a day, and the node must be removed.",
        "Move or delete the pod that the message names, or detach the volume.",
    )
    NO_ROOM_TO_GIVE_BACK = (
        "LimitReached",
        "The drain cannot be cancelled: the NodePool is gone or invalid, or its limits have no room for the node.",
    )
    DEADLINE_REACHED = (
        "TerminationGracePeriodElapsed",
        "The node's terminationGracePeriod has elapsed, so the pod was deleted regardless of budgets.",
    )
    SURGE_RESTART = (
        "SurgeRestart",
        "The pod's Deployment is restarted, so that its new pod starts on another node first.",
    )
    SURGE_REFUSED = (
        "SurgeRefused",
        "The pod's Deployment is not restarted, although its owner allows it; the message says why.",
        "Use the strategy RollingUpdate with maxSurge 1 and maxUnavailable 0.",
    )
    SURGE_DENIED = (
        "SurgeDenied",
        "The API server denied the restart of the pod's Deployment.",
        "Compare the permissions of the function's Kubernetes group with docs/reference/permissions.md.",
    )
    SURGE_FAILED = ("SurgeFailed", "The pod's Deployment could not be restarted; the restart is retried.")


# What becomes of a group that starts together when nodes with members of it go.


class GroupFate(DocumentedCode):
    """What a group does while members leave their nodes."""

    RUNS_ON = ("RunsOn", "The others run on.")
    MAY_END_FIRST = ("MayEndFirst", "They stay until it ends, or until the node's terminationGracePeriod does.")
    LOSES_THEM = ("LosesThem", "It loses them, and mostly starts again as a whole.")
    NOT_STARTED = ("NotStarted", "It does not run yet.")


class GroupLeaves(msgspec.Struct, frozen=True, order=True):
    """A group whose members leave their nodes.

    Attributes:
        name: `namespace/name`.
        fate: A code of `GroupFate`; empty where it is not known whether the members need each other.
        leaving: How many members are on the nodes that go.
        members: How many it has once all exist; zero where that is not known. Fewer than leave are no size: it changed.
    """

    name: str
    fate: str
    leaving: int
    members: int = 0

    @property
    def sentence(self) -> str:
        """The sentence for people, which is a part of a longer one."""
        verb = "leaves" if self.leaving == 1 else "leave"
        if self.members > self.leaving:
            words = f"{self.members} members, {self.leaving} {verb}"
        elif self.members == self.leaving > 1:
            words = f"{self.members} members, all leave"
        else:
            words = f"{self.leaving} member{'s' * (self.leaving != 1)} {verb}"
        fate = f": {GroupFate.of(self.fate, GroupFate.LOSES_THEM).clause}" if self.fate else ""
        return f"group {self.name} ({words}){fate}"


# Reasons concerning a disruption command.


class CommandReason(ReasonCode):
    """Why a command is abandoned, postponed or not begun."""

    CANDIDATES_GONE = ("CandidatesGone", "Its nodes are already gone.")
    STALE = (
        "Stale",
        "It could not be validated in time.",
        "If this happens often, check the duration of `execute`.",
    )
    TIMEOUT = ("Timeout", "Its replacements were not ready in time.", "Find out why the replacements did not join.")
    REPLACEMENT_LOST = ("ReplacementLost", "A replacement could not be launched or is gone.")
    VALIDATION_FAILED = (
        "ValidationFailed",
        "It no longer holds when validated before its start; the message says why.",
    )
    LEFT_OUT = (
        "LeftOut",
        "One of its nodes may no longer be removed, so the others are removed without it; the message says why.",
    )
    FAILED_BEFORE = (
        "FailedBefore",
        "The same command recently failed validation; it is postponed, longer each time.",
    )
    BUDGET_SPENT = ("BudgetSpent", "Other nodes have used up the NodePools' budgets.")
    LIMIT_REACHED = (
        "LimitReached",
        "The limits of a NodePool leave no room for its replacements.",
        "Raise spec.limits of the NodePool: a replacement runs beside the old node for a while.",
    )
    COMMAND_PENDING = ("CommandPending", "Another command has to be validated first.")
    ALREADY_DECIDED = ("AlreadyDecided", "An earlier attempt of this run stored it.")
    AWAITS_APPROVAL = (
        "AwaitsApproval",
        "It waits for a person's approval.",
        "Run `fleetwright approve ID --cluster NAME`; without approval it lapses after a day.",
    )
    APPROVED = ("Approved", "A person approved it.")
    REJECTED = ("Rejected", "A person rejected it; its nodes are not proposed again until it would have expired.")
    PROPOSAL_LAPSED = (
        "ProposalLapsed",
        "It waited for approval and no longer holds; the message says why.",
        "Nothing: commands that hold now are proposed again.",
    )
    APPROVAL_EXPIRED = (
        "ApprovalExpired",
        "It did not begin within a day, without approval or with closed budgets; it is proposed again if it still holds.",
        "Approve or reject it, or raise the bounds of `approveAbove*`.",
    )
    COMMAND_REFUSED = ("CommandRefused", "It has too many pods: the table stores no row of this size.")


# Why a command does not begin.


class Invalid(Refusal, frozen=True):
    """A command no longer holds, because something keeps one of its nodes or pods."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "{why}"
    why: Refusal


class NoCandidate(Refusal, frozen=True):
    """A node of the command may not be disrupted any more, or is gone."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    claim: str
    why: Refusal | None

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"NodeClaim {self.claim} is no longer a candidate: {self.why or 'it is gone'}"


class NoLongerDrifted(Refusal, frozen=True):
    """The node matches its NodePool again."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "node {node} is no longer drifted"
    node: str


class HealthyAgain(Refusal, frozen=True):
    """The node recovered before its repair."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "node {node} is healthy again"
    node: str


class NoLongerEmpty(Refusal, frozen=True):
    """The node got pods."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "node {node} is no longer empty"
    node: str


class BudgetsSpent(Refusal, frozen=True):
    """Budgets of NodePools have let other nodes go since the command was planned."""

    reason: ClassVar = CommandReason.BUDGET_SPENT
    node_pools: tuple[str, ...]
    cause: str

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"NodePools {', '.join(self.node_pools)} let no more nodes go for {self.cause}"


class BudgetsAllowFewer(Refusal, frozen=True):
    """Budgets let some of the command's nodes go, or none."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "budgets let {allowed} of {nodes} nodes go for {cause} now"
    allowed: int
    nodes: int
    cause: str


class LoneSpotNode(Refusal, frozen=True):
    """Only one spot node of the command is left, to which Karpenter's rule of fifteen types applies."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "spot node {node} is the only one left, and other rules apply to its replacement"
    node: str


PART_COSTS_MORE: Final = Stated(
    CommandReason.VALIDATION_FAILED, "the nodes that may still go do not pay for their new nodes"
)
PART_SAVES_TOO_LITTLE: Final = Stated(CommandReason.VALIDATION_FAILED, "the nodes that may still go save too little")
SAVES_NOTHING: Final = Stated(CommandReason.VALIDATION_FAILED, "its pods now need new nodes that cost no less")


class MoreNodesNeeded(Refusal, frozen=True):
    """The pods need more new nodes than the command launches."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    needed: int
    planned: int

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"its pods now need {self.needed} new node{'s' * (self.needed > 1)}, not {self.planned}"


class TypeUnsuited(Refusal, frozen=True):
    """A type of a replacement no longer holds the pods."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "instance type {instance_type} no longer suits replacement {replacement}"
    instance_type: str
    replacement: str


NOT_RESERVED: Final = Stated(CommandReason.VALIDATION_FAILED, "it is in no capacity reservation")


class PoolChanges(Refusal, frozen=True):
    """The node may not go before its replacement: the NodePool's nodes go one at a time."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "another node of NodePool {node_pool} goes or comes"
    node_pool: str


class ReservationNotFull(Refusal, frozen=True):
    """The node may not go before its replacement: its reservation has places, or takes no launches."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "capacity reservation {reservation} is not full, or cannot be launched into again"
    reservation: str


class PlaceWanted(Refusal, frozen=True):
    """The node may not go before its replacement: another pod would take the place."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    words: ClassVar = "a pod that waits would take the place in capacity reservation {reservation}"
    reservation: str


class Lapsed(Refusal, frozen=True):
    """A proposal no longer holds."""

    reason: ClassVar = CommandReason.PROPOSAL_LAPSED
    words: ClassVar = "{why}"
    why: Refusal


OTHER_COMMAND: Final = Stated(CommandReason.PROPOSAL_LAPSED, "another command applies to its nodes by now")


class NeedsApproval(Refusal, frozen=True, kw_only=True):
    """The command exceeds bounds of approval; a bound that it does not exceed is None. Without bounds, every command waits.

    Attributes:
        price, above_price: What its nodes cost, and what goes without approval, in nano-dollars per hour.
        nodes, above_nodes: How many nodes it has, and how many go without approval.
        namespaces: Those of its pods that are moved only with approval.
    """

    reason: ClassVar = CommandReason.AWAITS_APPROVAL
    price: int = 0
    above_price: int | None = None
    nodes: int = 0
    above_nodes: int | None = None
    namespaces: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The sentence for people."""
        parts = []
        if self.above_price is not None:
            price, bound = self.price / 10**9, self.above_price / 10**9
            parts.append(f"its nodes cost ${price:.4f} an hour, more than ${bound:.4f}")
        if self.above_nodes is not None:
            parts.append(f"it has {self.nodes} nodes, more than {self.above_nodes}")
        if self.namespaces:
            parts.append(f"it moves pods of {', '.join(self.namespaces)}")
        return "; ".join(parts) or "every command waits"


class MovesMore(Refusal, frozen=True):
    """The proposal would move pods of guarded namespaces that were not announced."""

    reason: ClassVar = CommandReason.PROPOSAL_LAPSED
    namespaces: tuple[str, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"it would now move pods of {', '.join(self.namespaces)} as well"


class TakesApproval(Refusal, frozen=True):
    """The command would move pods of namespaces that it takes approval to move."""

    reason: ClassVar = CommandReason.VALIDATION_FAILED
    namespaces: tuple[str, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"it would now move pods of {', '.join(self.namespaces)}, which takes approval"


class ApprovalOver(Refusal, frozen=True):
    """The proposal's day is over."""

    reason: ClassVar = CommandReason.APPROVAL_EXPIRED
    is_approved: bool
    until: datetime

    @property
    def message(self) -> str:
        """The sentence for people."""
        approved = "it was approved, but budgets and brakes did not let it begin"
        until = f"within a day, until {self.until:%Y-%m-%d %H:%M} UTC"
        return f"{approved if self.is_approved else 'nobody approved it'} {until}"


class RunReason(ReasonCode):
    """Why work was skipped, or what was repaired."""

    PLANNER_BUSY = ("PlannerBusy", "Another run is planning; this one tries again.")
    NODES_UNDER_WAY = ("NodesUnderWay", "A node is being launched for each waiting pod, so nothing is planned.")
    IMPROVEMENT_FAILED = (
        "ImprovementFailed",
        "The search for cheaper nodes failed; the plan without it is carried out.",
        "Report the error in the message: it is a defect.",
    )
    NOTHING_TO_DO = ("NothingToDo", "There was nothing to decide about.")
    LEDGER_NOT_WRITTEN = (
        "LedgerNotWritten",
        "The decision could not be stored in the ledger, so nothing is disrupted voluntarily; launches continue.",
        "Read the message: most often a permission on the bucket.",
    )
    TARGET_NOT_KEPT = (
        "TargetNotKept",
        "The target of the fleet could not be stored, so the next run plans a new one.",
        "Read the message; nothing is lost but time.",
    )
    PART_NOT_DECIDED = (
        "PartNotDecided",
        "Nothing was decided about these NodePools, which are a part of a large cluster; the next run decides about them.",
        "Read the log of `decide_part`; if it runs out of time or memory, set `partNodes` lower.",
    )
    TIME_SHORT = ("TimeShort", "The run ended before this was done; the next run does it.")
    CANNOT_BE_READ = (
        "CannotBeRead",
        "A field of the object is invalid, so the object is ignored, or its nodes are left unchanged.",
        "Correct the field that the message names; `fleetwright validate` lists all such fields with their lines.",
    )
    INTERNAL_ERROR = (
        "InternalError",
        "An object causes an error in our code, so it is set aside; everything else is decided as if it were not there.",
        "Report it with the object's manifest: it is a defect. Nodes that the object concerns are not disrupted.",
    )
    REFUSED_BY_API_SERVER = (
        "RefusedByAPIServer",
        "The API server would not store the object, so it is set aside and everything else is planned.",
        "Correct the field that the message names; `fleetwright validate` lists all such fields with their lines.",
    )
    READ_WITH_RESERVATION = (
        "Warning",
        "An object is used although a part of it is not understood.",
        "Read the message.",
    )
    VALIDATION_FAILED = (
        "ValidationFailed",
        "A NodePool or EC2NodeClass is invalid; its condition says the same.",
        "Correct the field that the message names.",
    )
    LAUNCH_VALIDATED = (
        "LaunchValidated",
        "EC2 allows launches from a new or changed EC2NodeClass; the message names the changed fields.",
    )
    UNKNOWN_FIELD = (
        "UnknownField",
        "An object has a field that this version does not know. If nodes are launched with it, none is launched.",
        "Update Fleetwright, or name the field in the object's annotation fleetwright.dev/ignored-fields.",
    )
    LAUNCH_NOT_VALIDATED = (
        "LaunchNotValidated",
        "EC2 denies launches from a new or changed EC2NodeClass, so it is not ready and its NodePools wait.",
        "Read EC2's message; the class is validated again after a minute, later every 15 minutes.",
    )
    CATALOGUE_NOT_READ = (
        "NotRead",
        "A part of the market could not be read; the last reading stays in use.",
        "Read the message: most often a permission.",
    )
    QUOTAS_NOT_READ = (
        "QuotasNotRead",
        "EC2's vCPU quotas could not be read; the last usage counts for half an hour, limits for three hours, then none apply.",
        "Read the message: most often a permission (servicequotas:ListServiceQuotas, ec2:DescribeInstances).",
    )
    USAGE_RECOUNTED = (
        "UsageRecounted",
        "A NodePool's counters differed from the sums over its claims and were corrected.",
    )
    CAP_FORECAST = (
        "CapForecast",
        "By the forecast, a day or month of a Calendar's cap ends at or above a percentage of its limit.",
        "Nothing is evicted. Raise the cap, or stop what may wait: `fleetwright status` has the spending of each cap.",
    )
    FORECAST_STOPPED = (
        "ForecastStopped",
        "Pods used little of the room that was forecast for the last days, so this recurring ramp gets none.",
        "Nothing: it gets room again once it recurs. `fleetwright forecast` has the evidence.",
    )
    BREAKER_CLOSED = ("NodePoolBreakerClosed", "A new node of the NodePool is ready, so its breaker closed.")


class FailureReason(ReasonCode):
    """The type of error with which a call or a piece of work failed; the message contains the other side's."""

    TRANSIENT = ("TransientError", "The call was throttled, timed out or failed on the other side; it is retried.")
    LOST_REPLY = ("LostReplyError", "The request was sent but got no answer; it is repeated.")
    THROTTLED = ("ThrottledError", "The other side is overloaded; the call is retried later.")
    NOT_FOUND = ("NotFoundError", "The object does not exist.")
    CONFLICT = ("ConflictError", "Another writer changed it first; it is checked again.")
    EVICTION_BLOCKED = ("EvictionBlockedError", "The eviction would violate a PodDisruptionBudget.")
    DENIED = (
        "DeniedError",
        "The call is not permitted, exceeds a quota, or requests something impossible.",
        "Compare the permissions of the function's role and Kubernetes group with docs/reference/permissions.md.",
    )
    SEVERAL_BUDGETS = (
        "SeveralBudgetsError",
        "More than one PodDisruptionBudget selects the pod.",
        "Keep only one budget that selects the pod.",
    )
    UNREADABLE_ROW = (
        "UnreadableRowError",
        "A row of the table that the work needs cannot be read; the message names it and what is wrong with it.",
        "Correct the row, or delete it.",
    )
    INSUFFICIENT_CAPACITY = ("InsufficientCapacityError", "Nothing could be launched.")
    UNEXPECTED = (
        "UnexpectedError",
        "An unexpected error; the log has its traceback.",
        "Report it: it is a defect.",
    )
