"""Reasons why a node does not change hands between Karpenter and us."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class AdoptionReason(ReasonCode):
    """Why a NodeClaim, a Node or an instance of Karpenter's is not adopted."""

    UNREADABLE = (
        "Unreadable",
        "The NodeClaim cannot be read.",
        "Correct the field that the message names.",
    )
    OTHER_PROVIDER = (
        "OtherProvider",
        "Its nodeClassRef does not name an EC2NodeClass, so another provider launched it.",
    )
    NOT_LAUNCHED = (
        "NotLaunched",
        "No instance was launched for it.",
        "Delete the NodeClaim and remove its finalizer: waiting pods get a node from Fleetwright.",
    )
    BEING_DELETED = (
        "BeingDeleted",
        "Karpenter was removing it, and an object that is being deleted accepts no new finalizer.",
        "Run Karpenter until it is gone, or drain the node, terminate its instance and remove the finalizers.",
    )
    REBOOTING = (
        "Rebooting",
        "Karpenter was rebooting its node, and only Karpenter opens the node to pods again.",
        "Run Karpenter until the reboot is over; or remove the taint karpenter.sh/rebooting and the condition Rebooting.",
    )
    NODE_POOL_NOT_FOUND = (
        "NodePoolNotFound",
        "Its NodePool does not exist or is being deleted, so its node would be drained and terminated.",
        "Create the NodePool, or terminate the node.",
    )
    NODE_CLASS_NOT_FOUND = (
        "NodeClassNotFound",
        "Its EC2NodeClass does not exist or is being deleted.",
        "Create the EC2NodeClass, or terminate the node.",
    )
    INSTANCE_NOT_FOUND = (
        "InstanceNotFound",
        "EC2 has no running instance of this id.",
        "Check the region and the account; if the instance is gone, remove the finalizers of NodeClaim and Node.",
    )
    OTHER_OWNER = (
        "OtherOwner",
        "The instance's tags name another cluster, NodePool or claim.",
        "Correct the tags if they are wrong.",
    )
    NAME_TAKEN = (
        "NameTaken",
        "A Fleetwright claim has this name but another instance.",
        "Report it with the output of `fleetwright status`: names of claims are unique.",
    )
    NOT_JOINED = (
        "NotJoined",
        "Its node did not join within 15 minutes, so it would be terminated right after adoption.",
        "Terminate the instance and delete the NodeClaim, or find out why the node does not join.",
    )
    SEVERAL_NODES = (
        "SeveralNodes",
        "Several Nodes have its provider id.",
        "Delete the obsolete Nodes.",
    )
    NO_NODE_CLAIM = (
        "NoNodeClaim",
        "It has Karpenter's tags or labels but no NodeClaim, so its plan is unknown.",
        "Drain the node if there is one, and terminate the instance.",
    )


class ReleaseReason(ReasonCode):
    """Why a claim of ours is not given to Karpenter."""

    LEAVING = (
        "Leaving",
        "Its node is being removed, and an object that is being deleted accepts no new finalizer.",
        "Run `fleetwright resume`, wait until the node is gone, then pause and release again.",
    )
    LAUNCHING = (
        "Launching",
        "Its instance was launched but is not stored in its claim yet.",
        "Run `fleetwright resume`, wait until the node is ready, then pause and release again.",
    )
    NOT_IN_TABLE = (
        "NotInTable",
        "The instance has Fleetwright's tag, but its claim is not in the table.",
        "Run `fleetwright resume`: `reconcile` rebuilds the claim within minutes; then pause and release again.",
    )
    GONE = (
        "Gone",
        "Its instance or its Node no longer exists.",
        "Run `fleetwright resume`, wait until the claim is gone, then pause and release again.",
    )
    POOL_NOT_FOUND = (
        "NodePoolNotFound",
        "Its NodePool does not exist, so its node will be terminated.",
        "Create the NodePool, or run `fleetwright resume` until the node is gone.",
    )
    OTHER_NODE_CLAIM = (
        "OtherNodeClaim",
        "A NodeClaim of its name belongs to another instance.",
        "Delete that NodeClaim if its instance does not run.",
    )
