"""Kinds of decisions."""

from __future__ import annotations

from core.reasons.code import DocumentedCode


class DecisionKind(DocumentedCode):
    """Kind of a decision in the functions' answers and logs; metrics count each as `Decisions<Kind>`."""

    LAUNCH = ("launch", "An instance was launched.")
    BIND = ("bind", "A pod is expected on an existing or launching node.")
    UNSCHEDULABLE = ("unschedulable", "A pod has no place.")
    DISRUPT = ("disrupt", "Voluntary disruption of a node was decided, or started.")
    REGISTER = ("register", "A node joined.")
    INITIALIZE = ("initialize", "A node is ready for pods.")
    DRAIN = ("drain", "A pod was evicted or could not be evicted, or a drain makes little progress.")
    TERMINATE = ("terminate", "The removal of a claim begins, or its instance is terminated.")
    INTERRUPT = ("interrupt", "EC2 or AWS Health announced a change of an instance.")
    ADOPT = ("adopt", "An instance was found by its tag.")
    RELABEL = ("relabel", "A node's labels were updated to match its instance.")
    EXPIRE = ("expire", "A claim is removed because of its age.")
    ABANDON = ("abandon", "A command, a drain or a brake was abandoned.")
    FORGET = ("forget", "The record of a claim was deleted, or a stray Node released.")
    REPAIR = ("repair", "A counter was corrected.")
    BRAKE = ("brake", "A NodePool's breaker opened.")
    RELEASE = ("release", "A NodePool's breaker closed.")
    PROPOSE = ("propose", "A command waits for approval.")
    APPROVE = ("approve", "A person approved a command, and it is carried out.")
    OBSERVE = (
        "observe",
        "A launch or command was only recorded: its NodePool or the cluster is only observed.",
    )
    SKIP = ("skip", "An object was left unchanged.")
