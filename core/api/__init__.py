"""The users' objects (NodePool, EC2NodeClass, NodeClaim, NodeOverlay, Calendar) as written: parsing, validation, conversion.

`problems` returns everything that is wrong with an object, `as_v1` and `all_as_v1` convert older versions, and the functions
named after kinds translate objects into the model. All are imported on first use: loading pydantic's models takes a third of a
cold start, and a function that handles an instance's events reads no object.
"""

from typing import TYPE_CHECKING, Final

from core.interpreter import lazily

if TYPE_CHECKING:
    from core.api.older_versions import all_as_v1, as_v1, problems
    from core.api.status import Problem
    from core.api.translation import calendar, node_claim, node_class, node_overlay, node_pool

__all__ = [
    "Problem",
    "all_as_v1",
    "as_v1",
    "calendar",
    "node_claim",
    "node_class",
    "node_overlay",
    "node_pool",
    "problems",
]

_MODULES: Final = {
    "Problem": "status",
    "all_as_v1": "older_versions",
    "as_v1": "older_versions",
    "calendar": "translation",
    "node_claim": "translation",
    "node_class": "translation",
    "node_overlay": "translation",
    "node_pool": "translation",
    "problems": "older_versions",
}

__getattr__ = lazily(__name__, _MODULES)

PUBLIC = ("crds", "objects", "older_versions", "status", "translation")
"""Files that the rest of the project may import; the others are this package's inside."""
