"""The users' objects (NodePool, EC2NodeClass, NodeClaim, NodeOverlay) as written: parsing, validation, conversion.

`problems` returns everything that is wrong with an object, `as_v1` and `all_as_v1` convert older versions, and the functions
named after kinds translate objects into the model.
"""

from core.api.conversion import all_as_v1, as_v1
from core.api.problem import Problem
from core.api.translation import node_claim, node_class, node_overlay, node_pool
from core.api.validation import problems

__all__ = ["Problem", "all_as_v1", "as_v1", "node_claim", "node_class", "node_overlay", "node_pool", "problems"]
