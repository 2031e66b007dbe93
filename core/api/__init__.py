"""The users' objects (NodePool, EC2NodeClass, NodeClaim, NodeOverlay) as they write them: parsing, validation, conversion.

`problems` says everything that is wrong with an object, `as_v1` and `all_as_v1` bring older versions to the present one,
and the functions named after kinds turn objects into what decisions are made on.
"""

from core.api.conversion import all_as_v1, as_v1
from core.api.problem import Problem
from core.api.translation import node_claim, node_class, node_overlay, node_pool
from core.api.validation import problems

__all__ = ["Problem", "all_as_v1", "as_v1", "node_claim", "node_class", "node_overlay", "node_pool", "problems"]
