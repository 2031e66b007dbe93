"""Kinds of decisions."""

from __future__ import annotations

from core.reasons.code import DocumentedCode


class DecisionKind(DocumentedCode):
    """Kind of a decision in the functions' answers and logs; metrics count each as `Decisions<Kind>`."""

    LAUNCH = ("launch", "An instance was launched.")
    BIND = ("bind", "A pod is expected on a node that exists or is on its way.")
    UNSCHEDULABLE = ("unschedulable", "A pod has no place.")
    DISRUPT = ("disrupt", "A node is to go by our choice: decided, or started.")
    REGISTER = ("register", "A node joined.")
    INITIALIZE = ("initialize", "A node is ready for pods.")
    DRAIN = ("drain", "A pod was evicted or could not be, or a drain makes slow progress.")
    TERMINATE = ("terminate", "A claim starts to go, or its instance is terminated.")
    INTERRUPT = ("interrupt", "EC2 or AWS Health announced something about an instance.")
    ADOPT = ("adopt", "An instance was found by its tag.")
    RELABEL = ("relabel", "A node's labels were brought in line with its instance.")
    EXPIRE = ("expire", "A claim is removed because of its age.")
    ABANDON = ("abandon", "A command, a drain or a brake was given up.")
    FORGET = ("forget", "The record of a claim or a stray Node was dropped.")
    REPAIR = ("repair", "A counter was corrected.")
    BRAKE = ("brake", "A NodePool's breaker opened.")
    RELEASE = ("release", "A NodePool's breaker closed.")
    PROPOSE = ("propose", "A command waits for approval.")
    APPROVE = ("approve", "A person approved a command, and it is carried out.")
    OBSERVE = (
        "observe",
        "A launch or a command that is only recorded: its NodePool, or the cluster, is only observed.",
    )
    SKIP = ("skip", "Something was left as it is.")
