"""The reference pages agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.commands import program
from cli.validation.formats import KUBERNETES_FIELDS, written_fields
from core.model.snapshot import GATES, FeatureGates
from installation.settings import Settings
from installation.wiring import FUNCTIONS
from tests import figures, reference

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", ["cli.md", "compatibility.md", "launch-errors.md", "reason-codes.md", "settings.md"])
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


HANDBOOK = ROOT / "docs" / "engineering" / "handbook"
INDEX = HANDBOOK / "index.md"
CHAPTERS = sorted(set(HANDBOOK.glob("*.md")) - {INDEX})
CHAPTER_LINES_MAX = 250

OLD_NUMBERS = 201
"""Decisions that had a number, between 1 and 284, when the handbook was written."""


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and GitHub make them, and those that it names itself."""
    text = page.read_text(encoding="utf-8")
    outside_of_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", outside_of_code, re.MULTILINE)
    slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def sections(page: Path) -> dict[str, str]:
    """Anchor of each section of a chapter → its text."""
    parts = re.split(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    slugs = [re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in parts[::2]]
    assert len(set(slugs)) == len(slugs), page.name
    return dict(zip(slugs, parts[1::2], strict=True))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_resolve(page: Path) -> None:
    """A link to a section that was renamed leads to the top of a long page."""
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    inside = [(page.parent / target if target else page, anchor) for target, anchor in links if "://" not in target]
    assert not [
        f"{target.name}#{anchor}"
        for target, anchor in inside
        if target.suffix == ".md" and target.exists() and anchor not in anchors(target)
    ]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda page: page.stem)
def test_each_section_of_the_handbook_says_why_and_what_was_rejected(chapter: Path) -> None:
    """A rule without its reason is kept for ever, or dropped by whoever is in its way."""
    assert sections(chapter)
    lacks = [
        f"{anchor}: {part}"
        for anchor, text in sections(chapter).items()
        for part in ("**Why.**", "**Rejected.**")
        if not re.search(rf"^{re.escape(part)}\n\S", text, re.MULTILINE)
    ]
    assert lacks == []
    assert len(chapter.read_text(encoding="utf-8").splitlines()) <= CHAPTER_LINES_MAX


def test_the_index_has_a_question_for_each_section() -> None:
    """Readers come with a question, not with the name of a chapter."""
    text = INDEX.read_text(encoding="utf-8").partition("## Old numbers")[0]
    answered = set(re.findall(r"^- .+\? → \[[^\]]+\]\(([\w-]+\.md#[\w-]+)\)$", text, re.MULTILINE))
    assert answered == {f"{chapter.name}#{anchor}" for chapter in CHAPTERS for anchor in sections(chapter)}
    assert text.count("\n- ") == len(re.findall(r"^- .+\? → \[[^\]]+\]\(", text, re.MULTILINE))


def test_each_old_number_leads_to_one_section() -> None:
    """Commit messages of before cite decisions by number."""
    text = INDEX.read_text(encoding="utf-8").partition("## Old numbers")[2]
    leads = [int(number) for number in re.findall(r"\[(\d+)\]\([\w-]+\.md#[\w-]+\)", text)]
    gone = [int(number) for number in re.findall(r"\d+", text.partition("No longer in force")[2])]
    assert leads == sorted(set(leads))
    assert gone == sorted(set(gone) - set(leads))
    assert len(leads) + len(gone) == OLD_NUMBERS


def test_the_site_lists_each_chapter() -> None:
    """A chapter that the navigation lacks is found by nobody."""
    listed = re.findall(r"engineering/handbook/([\w-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(page.name for page in HANDBOOK.glob("*.md"))


def test_citations_in_the_code_name_chapters() -> None:
    """A comment that cites a chapter which is gone explains nothing."""
    folders = ("core", "installation", "adapters", "lambdas", "simulator", "cli", "infra", "benchmarks", "tests")
    cited = [
        (path, name)
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in re.findall(r"docs/engineering/handbook/([\w-]+\.md)", path.read_text(encoding="utf-8"))
    ]
    assert cited
    assert not [f"{path.relative_to(ROOT)}: {name}" for path, name in cited if not (HANDBOOK / name).exists()]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda page: page.stem)
def test_a_line_of_the_handbook_has_one_sentence(chapter: Path) -> None:
    """A changed sentence is a changed line, so the history of a section shows what was changed."""
    found = []
    for number, line in enumerate(chapter.read_text(encoding="utf-8").splitlines(), 1):
        prose = re.sub(r"`[^`]*`|\([^()]*\)", "x", "" if line.startswith(("|", "#")) else line)
        if re.search(r"\w\w[^\w\s]?[.?!]\*{0,2} [\w*\[]", prose):
            found.append(number)
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


def test_the_manual_page_is_up_to_date() -> None:
    """It is in the wheel, since the library that writes it would have to be built from sources; `make docs` writes it again."""
    assert program.PAGE.read_text(encoding="utf-8") == program.written_page(), "run `make docs`"


PLUGINS = [
    "SchedulingGates",
    "PrioritySort",
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
]
"""kube-scheduler's default profile, in its order (Kubernetes 1.37, pkg/scheduler/apis/config/v1/default_plugins.go)."""


def test_the_rules_of_kubernetes_name_files_and_plugins_that_exist() -> None:
    """Whoever doubts a rule finds its source, our reading and the test; each plugin has rules or is left to the scheduler."""
    page = (ROOT / "docs/reference/how-we-read-kubernetes.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    rules = {cells[0]: cells for cells in rows if len(cells) == 5 and cells[0] != "Rule" and set(cells[0]) != {"-"}}
    for name, (_, _, source, ours, test) in rules.items():
        assert re.search(r"`[\w./-]+`", source), name
        paths = re.findall(r"`((?:core|tests)/[\w/]+\.py)`", f"{ours} {test}")
        assert len(paths) >= 2, name
        assert [path for path in paths if not (ROOT / path).exists()] == [], name
    of_plugin = {cells[0]: cells[1] for cells in rows if len(cells) == 2 and cells[0] in PLUGINS}
    assert list(of_plugin) == PLUGINS
    named = {rule for text in of_plugin.values() for rule in text.split(", ")} - {"left to the scheduler"}
    assert named <= rules.keys()
