"""Recognizes what a folder of manifests holds beside objects: templates, placeholders, and the files of other tools."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
CHART: Final = "Chart.yaml"

_TEMPLATE: Final = re.compile(r"\{\{|\{%|<%")
"""How Go, Helm, Jinja and ERB begin an action."""
_PLACEHOLDER: Final = re.compile(
    r"\$\{[^{}\s]+\}|<<[A-Za-z][\w .-]*>>|<[A-Za-z][\w-]*>|%\{[^{}]*\}|@@?[A-Z][A-Z0-9_]+@@?|\$\([A-Z][A-Z0-9_]*\)"
    r"|__[A-Z][A-Z0-9_]+__|\$[A-Z][A-Z0-9_]{2,}\b|\[\[ ?[\w.]+ ?\]\]|#\{[\w.]+\}|%[A-Z][A-Z0-9_]+%"
)
_SCRIPTS: Final = frozenset({"args", "command", "data", "env", "stringData", "userData"})
"""Fields whose texts have variables of their own, which a program fills in where it runs."""
_OF_SHELL: Final = re.compile(r"\$[\w{]")
"""How the placeholders begin that `envsubst` fills in."""
RENDERED: Final = "rendered.yaml"
"""Where commands that the hints name write to."""
_YAML_BODIES: Final = r'.planned_values | .. | objects | .yaml_body // empty | "---\n\(.)"'
"""What `jq` takes out of Terraform's plan: the manifests of kubectl_manifest."""
_LANGUAGES: Final = {
    ".tf": ("Terraform", f"terraform show -json PLAN | jq -r '{_YAML_BODIES}' > {RENDERED}"),
    ".jsonnet": ("Jsonnet", f"jsonnet {{file}} | jq '.[]' > {RENDERED}"),
    ".libsonnet": ("Jsonnet", f"jsonnet FILE | jq '.[]' > {RENDERED}"),
}
"""Suffix → a language whose programs make objects, and how to get them."""
_IDENTITY: Final = re.compile(r"""^["']?(apiVersion|kind)["']?\s*:|^\s*[{,]?\s*"(apiVersion|kind)"\s*:""", re.MULTILINE)
"""How the lines begin that make a document an object, in YAML and in JSON."""
ON_MARKER: Final = re.compile(r"""^--- +[\w./"'-]+:(?=\s|$)""", re.MULTILINE)
"""A document whose first key follows `---` on its line."""
_CONFLICT: Final = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)
"""How Git marks the sides of a merge conflict."""
_ODD_SPACES: Final = re.compile(r"^ *\u00a0+[\s\u00a0]*(\S{1,20})", re.MULTILINE)
"""A line that a web page or a chat indented."""
_WORDS: Final = {
    "mapping values are not allowed in this context": "a second `: ` on the line, or wrong indentation; quote the value",
    "could not find expected ':'": "the line has no `: ` after its key, or is indented wrongly",
    "did not find expected key": "the line is indented differently from those around it, or a bracket before it stays open",
    "did not find expected '-' indicator": "the line is indented as a list, and is no item of it",
    "did not find expected ',' or ']'": "a `[` before it has no `]`",
    "did not find expected ',' or '}'": "a `{` before it has no `}`",
}
"""What the parser says → what a reader can do about it."""


def action_in(text: str) -> str:
    """Return the first action of a template in a text, empty if there is none."""
    action = _TEMPLATE.search(text)
    if action is None:
        return ""
    start = action.start()
    end = min((at for at in map(text.find, ("}}", "%}", "%>"), 3 * [start]) if at >= 0), default=-1)
    return text[start : end + 2] if 0 <= end < start + 60 else action[0]


def placeholder_in(value: Any) -> str:
    """Return the first placeholder in a text or in the texts of an object, empty if there is none."""
    if isinstance(value, str):
        match = _PLACEHOLDER.search(value)
        return match[0] if match else ""
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = (part for pair in value.items() for part in pair)
    elif isinstance(value, list):
        inner = value
    return next((placeholder for part in inner if (placeholder := placeholder_in(part))), "")


def template_in(value: Any) -> str:
    """Return the first action of a template or placeholder in an object that is YAML all the same, outside of its scripts."""
    if isinstance(value, dict):
        pairs = (pair for pair in value.items() if pair[0] not in _SCRIPTS)
        return next((template for pair in pairs for part in pair if (template := template_in(part))), "")
    if isinstance(value, list):
        return next((template for part in value if (template := template_in(part))), "")
    return (action_in(value) or placeholder_in(value)) if isinstance(value, str) else ""


def rendering_hint(source: str, mark: str) -> str:
    """Return the command that renders a template, or fills in a placeholder, before it is read."""
    if _TEMPLATE.match(mark):
        chart = chart_of(Path(source))
        of_helm = chart is not None or re.search(r"\.Values|\.Release|\.Chart|include ", mark)
        if of_helm or "templates" in Path(source).parts:
            rendering = f"helm template {shlex.quote(str(chart or 'CHART'))}"
            return f"run `{rendering} > {RENDERED}` and give -f {RENDERED}" + (", or give --helm" if chart else "")
        return "render it first, and give the result with -f"
    if mark.startswith("%{"):
        return "let Terraform's templatefile render it, and give the result with -f"
    if not _OF_SHELL.match(mark):
        return "fill it in first"
    file = "FILE" if source == "-" else shlex.quote(source)
    return f"fill it in first: `envsubst < {file} > {RENDERED}`, and give -f {RENDERED} (or what Terraform or Flux renders)"


def program_in(source: str) -> tuple[str, str] | None:
    """Return what is wrong with a file of a language that makes objects, and the command that runs it; None for others."""
    language = _LANGUAGES.get(Path(source).suffix)
    if language is None:
        return None
    command = language[1].replace("{file}", shlex.quote(source))
    return f"is {language[0]}, not YAML", f"run `{command}` and give -f {RENDERED}"


def part_of(source: str) -> tuple[str, str] | None:
    """Return the tool that the file's name belongs to, and the command that renders objects with it; None for other files."""
    path = Path(source)
    folder = shlex.quote(str(path.parent))
    if path.name in KUSTOMIZATIONS:
        return "Kustomize", f"run `kustomize build {folder} > {RENDERED}` and give -f {RENDERED}"
    if path.name == CHART or (path.name.startswith("values") and chart_of(path) is not None):
        return "Helm", f"run `helm template {shlex.quote(str(chart_of(path)))} > {RENDERED}` and give -f {RENDERED}"
    return None


def unlisted_hint(value: Any, source: str) -> str:
    """Return how to give the objects of a list, or of a mapping with a key for each, which nobody can apply; empty if none."""
    parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if not parts or not all(isinstance(part, dict) and part.get("kind") and part.get("apiVersion") for part in parts):
        return ""
    if not Path(source).name.endswith(".json"):
        return "give each object a document of its own, after a line with ---"
    return f"run `jq '.[]' {shlex.quote(source)} > {RENDERED}` and give -f {RENDERED}"


def chart_of(file: Path) -> Path | None:
    """Return the folder of the Helm chart that a file belongs to."""
    return next((folder for folder in file.parents if (folder / CHART).is_file()), None)


def syntax_problem(problem: str, line: str, text: str) -> tuple[str, str]:
    """Return what is wrong with text that is not YAML, and the template's mark if it is one.

    Args:
        problem: The parser's own words.
        line: The line where it stopped.
        text: The document.
    """
    for part in (line, text):
        for name, mark in (("a template", action_in(part)), ("a placeholder", placeholder_in(part))):
            if mark and (part is line or name == "a template"):
                if name == "a template":
                    return f"is a template, not YAML: it has {mark}", mark
                return f"is not YAML before {name} is filled in: {mark}", mark
    if conflict := _CONFLICT.search(text):
        return f"has a merge conflict: resolve it, and delete the line {conflict[0].strip()}", ""
    if line[: len(line) - len(line.lstrip())].count("\t"):
        return "is not YAML: the line begins with a tab; YAML allows only spaces there", ""
    if spaces := _ODD_SPACES.search(text):
        return f"is not YAML: non-breaking spaces are before {spaces[1]!r}; replace them with plain spaces", ""
    if text.lstrip().startswith(("//", "/*")):
        return "is not YAML: it has a comment with slashes; delete it", ""
    if (mark := placeholder_in(text)) and "flow" in problem:
        return f"is not YAML before a placeholder is filled in: {mark}", mark
    return f"is not YAML: {_WORDS.get(problem, problem)}", ""


def claims_identity(text: str) -> bool:
    """Whether text that cannot be read is meant as an object of Kubernetes: it has a kind or an apiVersion."""
    return _IDENTITY.search(text) is not None


def is_object(value: Mapping[str, Any], source: str) -> bool:
    """Whether a document of a folder is meant as an object of Kubernetes: other tools' YAML has no kind and apiVersion."""
    if Path(source).name in (*KUSTOMIZATIONS, CHART):
        return False
    has_kind, has_version = value.get("kind"), value.get("apiVersion")
    if has_kind and has_version:
        return not _is_of_a_tool(value)
    return bool(has_kind or has_version) and isinstance(value.get("metadata"), dict)


DIRECTIVE: Final = "$patch"
"""What tells Kustomize how to merge (strategic merge patches)."""


def is_patch(value: object) -> bool:
    """Whether a document directs a merge at some depth, which no stored object does: it is Kustomize's patch of another."""
    if isinstance(value, dict):
        return DIRECTIVE in value or any(map(is_patch, value.values()))
    return isinstance(value, list) and any(map(is_patch, value))


def _is_of_a_tool(value: Mapping[str, Any]) -> bool:
    """Whether it is a tool's configuration, which no API server stores: it has no `metadata.name`, and no group of ours."""
    metadata = value.get("metadata")
    group = str(value.get("apiVersion")).partition("/")[0]
    is_list = isinstance(value.get("items"), list)
    is_named = isinstance(metadata, dict) and (metadata.get("name") or metadata.get("generateName"))
    return group.startswith(("kustomize.config", "kind.x-k8s", "skaffold", "eksctl.", "k3d.")) and (
        not is_list and (not is_named or group.startswith(("kustomize", "eksctl.")))
    )
