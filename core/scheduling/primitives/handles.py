"""Types of the integers in scheduling: numbers of objects, and sets of objects as bit masks.

At run time all of them are plain integers. Numbers are valid only within the planner, or the plan, that assigned them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NewType

RequirementId = NewType("RequirementId", int)
"""Requirements in the `RequirementTable` of a snapshot; `IMPOSSIBLE` if they contradict each other."""

TopologyGroupId = NewType("TopologyGroupId", int)
"""A topology group in the `Topology` of a snapshot."""

PodGroupId = NewType("PodGroupId", int)
"""A group of equal pods of a snapshot."""

StepId = NewType("StepId", int)
"""A relaxation step among all steps of a snapshot."""

if TYPE_CHECKING:
    from typing import Self

    class _Mask(int):
        """A set of small integers: bit i is set if i is a member. Operations on masks of one kind return that kind."""

        def __and__(self, other: int) -> Self: ...
        def __or__(self, other: int) -> Self: ...
        def __xor__(self, other: int) -> Self: ...
        def __rand__(self, other: int) -> Self: ...
        def __ror__(self, other: int) -> Self: ...
        def __invert__(self) -> Self: ...

    class TypeMask(_Mask):
        """Instance types of one NodePool, in order of name."""

    class NodeMask(_Mask):
        """Existing nodes, by position."""

    class ClaimMask(_Mask):
        """Claims of one plan, in the order of opening."""

else:
    TypeMask = NodeMask = ClaimMask = int

NO_TYPES: Final = TypeMask(0)
NO_CLAIMS: Final = ClaimMask(0)
