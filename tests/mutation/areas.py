"""Finds the tests that must notice a module's mutants: those of its own area, not the whole suite."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from tests.mutation.mutants import Mutant

ROOT: Final = Path(__file__).parents[2]

CODE: Final = ("core", "adapters", "lambdas", "cli")
"""The packages that areas are parts of."""

_EXPLANATIONS: Final = (
    "tests/unit/test_explain.py",
    "tests/property/test_explanations.py",
)
_PODS: Final = ("tests/unit/disruption", "tests/unit/lifecycle", "tests/property/disruption")
_COURSES: Final = ("tests/simulation/test_expected_courses.py", "tests/simulation/test_rare_courses.py")
_FUNCTIONS: Final = ("tests/unit/adapters", "tests/unit/lambdas", "tests/integration/test_handlers.py", *_COURSES)
_COMMANDS: Final = (
    "tests/simulation/test_approval.py",
    "tests/simulation/test_drains.py",
    "tests/simulation/test_ledger.py",
    "tests/simulation/test_takeover.py",
    "tests/simulation/test_status.py",
    "tests/simulation/test_takeover.py",
)
"""Commands that act on a cluster or read its ledger are tested in a simulated one."""

_PAGES: Final = (
    "tests/unit/docs/test_pages.py",
    "tests/unit/docs/test_pages.py",
    "tests/unit/docs/test_reference.py",
)
"""What the program promises is on pages: options and defaults in the reference, outputs in tutorials and guides, schemas."""


SUITES: Final = {
    "cli": ("tests/unit/cli", *_PAGES, *_COMMANDS),
    "core/commitments.py": (
        "tests/unit/test_commitments.py",
        "tests/property/scheduling/test_planner_laws.py",
        "tests/property/disruption/test_laws.py",
    ),
    "core/scheduling": ("tests/unit/scheduling", *_EXPLANATIONS, "tests/property/scheduling"),
    "core/packing": ("tests/unit/packing", "tests/property/packing"),
    "core/disruption": ("tests/unit/disruption", "tests/property/disruption"),
    "core/lifecycle": ("tests/unit/lifecycle", "tests/unit/lambdas", "tests/property/test_binding_rules.py", *_COURSES),
    "core/ami_families": ("tests/unit/ami_families", "tests/property/hostile/test_launches.py"),
    "core/launch": (
        "tests/unit/launch",
        "tests/property/hostile/test_launches.py",
        "tests/property/hostile/test_objects.py",
    ),
    "core/ledger": ("tests/unit/ledger", "tests/unit/adapters/test_ledger.py"),
    "core/approval": ("tests/unit/approval", "tests/unit/lambdas/controllers/test_approvals.py", *_COURSES),
    "core/counterfactual": ("tests/unit/counterfactual",),
    "core/cost_report.py": ("tests/unit/test_cost_report.py",),
    "core/catalogue": ("tests/unit/catalogue", "tests/oracle"),
    "core/price_terms.py": ("tests/unit/test_price_terms.py",),
    "core/manifests": (
        "tests/unit/manifests",
        "tests/property/scheduling/test_from_manifests.py",
        "tests/property/scheduling/test_from_manifests.py",
    ),
    "core/model": (
        "tests/unit/model",
        "tests/property/test_requirement_algebra.py",
        "tests/unit/scheduling",
        "tests/unit/disruption",
        "tests/unit/manifests",
    ),
    "core/api": ("tests/unit/api",),
    "core/brakes.py": ("tests/unit/test_brakes.py",),
    "core/pod_disruption_budgets.py": ("tests/unit/test_pod_disruption_budgets.py", *_PODS),
    "core/pods.py": ("tests/unit/test_pods.py", *_PODS),
    "core/pools.py": ("tests/unit/test_pools.py", "tests/unit/scheduling"),
    "adapters/brakes.py": _FUNCTIONS,
    "adapters/ledger.py": _FUNCTIONS,
    "adapters/observation": _FUNCTIONS,
    "lambdas/application": ("tests/unit/lambdas", "tests/integration"),
    "lambdas/controllers": _FUNCTIONS,
}
"""Folder or file → the tests of its area."""

WHOLE_RESULTS: Final = {
    "core/api": ("tests/unit/api/test_crds.py", "tests/unit/api/test_api.py"),
    "core/approval": _COURSES,
    "core/catalogue": ("tests/unit/catalogue/test_defaults.py",),
    "core/disruption": ("tests/property/disruption/test_expected_decisions.py",),
    "core/lifecycle": _COURSES,
    "core/manifests": (
        "tests/property/scheduling/test_from_manifests.py",
        "tests/unit/manifests/wire/test_defaults.py",
    ),
    "core/model": ("tests/unit/model/test_defaults.py",),
    "core/packing": ("tests/unit/packing/test_problem.py",),
    "core/scheduling": (
        "tests/property/scheduling/test_expected_plans.py",
        "tests/property/scheduling/test_expected_searches.py",
    ),
    "lambdas/controllers": _COURSES,
}
"""Folder → the tests of its suite that compare whole results with texts (`tests.expected`) or tables: seconds for an area."""


def area_of(path: str) -> str:
    """The area of a module; empty for one that no area has."""
    return next((area for area in sorted(SUITES) if is_under(path, [area])), "")


def is_of_area(test: str, area: str) -> bool:
    """Whether a test, named as pytest does, belongs to an area's suite."""
    return is_under(test, SUITES[area])


def is_under(test: str, suites: Iterable[str]) -> bool:
    """Whether a test, named as pytest does, lies in one of these files and folders."""
    file = test.partition("::")[0]
    return any(file == suite or file.startswith(f"{suite}/") for suite in suites)


def modules(area: str) -> list[str]:
    """The modules of an area, by name, from the root of the repository."""
    if area.endswith(".py"):
        return [area]
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / area).rglob("*.py") if path.name != "__init__.py")


def own_tests(path: str) -> str:
    """Where a module's own tests are, if it has any: the folders of tests/unit mirror those of the code, without `core`."""
    module = Path(path)
    folders = module.parent.parts[1:] if path.startswith("core/") else module.parent.parts
    return str(Path("tests/unit", *folders, f"test_{module.name}"))


# Locates a mutant: its function, the lines of its statement, and the names by which other code refers to it.


_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(msgspec.Struct, frozen=True):
    """A mutant's surroundings.

    Attributes:
        function: The qualified name of the outermost function whose body holds it; empty for code that runs at import, which
            includes defaults of parameters and decorators.
        function_line: The first line of that function, its decorators included; 0 without one.
        first, last: The lines of its statement; only the head of one that has a body.
        names: What the statement defines, where it runs at import: constants, fields, functions, classes.
    """

    function: str
    function_line: int
    first: int
    last: int
    names: tuple[str, ...]


def place_of(mutant: Mutant, source: str) -> Place:
    """The place of a mutant in the text of its module.

    Raises:
        LookupError: If the module has no such line.
    """
    inner: ast.stmt | None = None
    function, function_line, qualified, names = "", 0, "", []
    body: list[ast.stmt] = _tree(source).body
    while (found := _at(body, mutant.line)) is not None:
        inner = found
        if isinstance(found, _Function | ast.ClassDef):
            qualified = f"{qualified}.{found.name}" if qualified else found.name
        if not function and isinstance(found, _Function) and mutant.line >= found.body[0].lineno:
            function, function_line = qualified, _first_line(found)
        if not function:
            names += defined(found)
        body = [statement for statement in _inside(found) if isinstance(statement, ast.stmt)]
    if inner is None:
        raise LookupError(f"{mutant.path} has no statement in line {mutant.line}")
    return Place(function, function_line, _first_line(inner), _last_line_of_head(inner), tuple(names))


@lru_cache(maxsize=8)
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def _at(body: list[ast.stmt], line: int) -> ast.stmt | None:
    return next((one for one in body if _first_line(one) <= line <= (one.end_lineno or one.lineno)), None)


def _inside(statement: ast.stmt) -> list[ast.AST]:
    """The statements one level below, also those of handlers and cases."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.ExceptHandler | ast.match_case):
            found += child.body
        else:
            found.append(child)
    return found


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _last_line_of_head(statement: ast.stmt) -> int:
    below = [one.lineno for one in _inside(statement) if isinstance(one, ast.stmt)]
    if not below:
        return statement.end_lineno or statement.lineno
    return max(statement.lineno, min(below) - 1)


def defined(statement: ast.stmt) -> list[str]:
    """The names that a statement gives to what it makes."""
    if isinstance(statement, _Function | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [one.id for target in targets if target is not None for one in ast.walk(target) if isinstance(one, ast.Name)]
