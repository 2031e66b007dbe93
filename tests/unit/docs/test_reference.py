"""The reference pages agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.validation.formats import KUBERNETES_FIELDS, written_fields
from core.model.snapshot import GATES, FeatureGates
from installation.settings import Settings
from installation.wiring import FUNCTIONS
from tests import figures, reference

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", ["cli.md", "launch-errors.md", "reason-codes.md", "settings.md"])
def test_generated_pages_are_up_to_date(name: str) -> None:
    """Otherwise, readers look up options and codes that do not exist; `make docs` writes the pages again."""
    assert (reference.FOLDER / name).read_text(encoding="utf-8") == reference.pages()[name], "run `make docs`"


def test_published_schemas_are_up_to_date() -> None:
    """Programs are generated from them; `make docs` writes them again."""
    written = {path.name: path.read_text(encoding="utf-8") for path in reference.SCHEMAS.glob("*.json")}
    assert written == reference.schemas(), "run `make docs`"


def test_generated_definitions_are_up_to_date() -> None:
    """Otherwise, a cluster refuses what the models allow, or the reverse; `make docs` writes them again."""
    written = {path.name: path.read_text(encoding="utf-8") for path in reference.CRDS.glob("*.yaml")}
    assert written == reference.crds(), "run `make docs`"


@pytest.mark.parametrize(
    ("page", "text"), figures.pages().items(), ids=lambda found: found.stem if isinstance(found, Path) else ""
)
def test_figures_are_those_of_the_stored_night_run(page: Path, text: str) -> None:
    """A figure written by hand was not measured."""
    assert page.read_text(encoding="utf-8") == text


def test_figures_replace_older_ones_and_nothing_else() -> None:
    """Otherwise, `make docs` removes a page's own text, or leaves stale figures beside new ones."""
    begin, end = "<!-- Figures: `make docs` writes them from docs/x.json. -->", "<!-- End of the figures. -->"
    page = f"before\n{begin}\nstale\n{end}\nafter"
    written = figures.with_section(page, "x.json", "fresh")
    assert written == f"before\n{begin}\n\nfresh\n\n{end}\nafter"
    assert figures.with_section(written, "x.json", "fresh") == written
    with pytest.raises(ValueError, match="must have the lines"):
        figures.with_section("no place", "x.json", "fresh")


def test_the_table_of_kubernetes_fields_is_up_to_date() -> None:
    """Otherwise, `validate` calls a new field of pods a typo; `make docs` reads the pinned client again."""
    assert KUBERNETES_FIELDS.read_text(encoding="utf-8") == written_fields(), "run `make docs`"


def test_every_setting_and_gate_has_a_meaning() -> None:
    """A row without a meaning sends the operator to the source."""
    text = reference.settings()
    assert all(f"| `{field.upper()}` |" in text for field in Settings.__struct_fields__)
    assert len(GATES) == len(FeatureGates.__struct_fields__)
    assert not [line for line in text.splitlines() if line.startswith("| `") and line.rstrip("| ").count("|") < 3]


def test_the_guide_states_the_reserved_concurrency() -> None:
    """An account with too little unreserved concurrency refuses the deployment."""
    guide = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
    assert f"reserve {sum(spec.concurrency or 0 for spec in FUNCTIONS)} of the account" in guide
    for spec in FUNCTIONS:
        assert spec.concurrency in (None, 1) or f"`{spec.name}` {spec.concurrency}" in guide


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    """A dead link hides the only document about a subject."""
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    inside = [target for target in targets if "://" not in target]
    assert not [target for target in inside if not (page.parent / target).exists()]


def test_decisions_have_unique_numbers() -> None:
    """Two decisions with one number cannot be cited."""
    files = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert len({file.name[:4] for file in files}) == len(files)
    for file in files:
        title = file.read_text(encoding="utf-8").splitlines()[0]
        assert title.startswith(f"# {int(file.name[:4])}. "), file.name


def test_a_line_of_a_decision_has_one_sentence() -> None:
    """A changed sentence is a changed line, so the history of a decision shows what was changed."""
    found = []
    for file in sorted((ROOT / "docs" / "adr").glob("*.md")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            prose = re.sub(r"`[^`]*`|\([^()]*\)", "x", "" if line.startswith(("|", "#")) else line)
            if re.search(r"\w\w[^\w\s]?[.?!]\*{0,2} [\w*\[]", prose):
                found.append(f"{file.name}:{number}")
    assert found == []


def test_readme_and_contributing_name_existing_targets() -> None:
    """The first command that a newcomer types must work."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {
        word
        for page in PAGES
        for word in re.findall(r"^    make ([a-z0-9-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named
    assert not [target for target in sorted(named) if not re.search(rf"^{target}:", makefile, re.MULTILINE)]
