"""What a release consists of: each file has a test, the same sources give the same bytes, and nothing is left to fill in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from core.version import VERSION as OWN
from infra.release import artefacts, bill, channels, requirements
from infra.release.__main__ import STATED, copy_sources
from infra.release.archives import digest_of_folder, pack_zip, sha256
from infra.release.templates import VARIANTS
from infra.release.version import Version, VersionError
from tests.release.channel_checks import gitlab_component, run_script
from tests.release.checks import CHECKS

ROOT = Path(__file__).parents[2]
VERSION = Version("1.2.3")
LINES = [line for line in (ROOT / "requirements-cli.txt").read_text().splitlines() if line and not line.startswith("#")]


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, str]:
    """The files for other channels, of a wheel and a plugin that are there in name alone."""
    for name in ("fleetwright_eks-1.2.3-py3-none-any.whl", "plugin.zip"):
        (tmp_path / name).write_text(name)
    wheel, plugin = sorted(tmp_path.iterdir())
    return channels.written(channels.values(VERSION, wheel, plugin))


def test_every_file_of_a_release_has_a_test_that_there_is() -> None:
    assert {name for _, name in artefacts.TEST_OF} == set(CHECKS)
    with pytest.raises(LookupError, match="has no test"):
        artefacts.test_of("notes.txt")


def test_a_release_lists_its_files_with_digests_that_sha256sum_accepts(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "x-1.2.3.tgz").write_bytes(b"x")
    found = artefacts.collected(tmp_path)
    artefacts.write_checksums(tmp_path, found)
    release = artefacts.Release(version="1.2.3", commit="", is_modified=False, artefacts=found, not_checked=[])
    artefacts.write(tmp_path, release)
    assert artefacts.read(tmp_path) == release
    assert [artefact.file for artefact in artefacts.collected(tmp_path)] == ["charts/x-1.2.3.tgz"]
    checked = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=False)  # noqa: S607
    assert checked.returncode == 0


def test_a_zip_has_the_same_bytes_whenever_it_is_packed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.py").write_text("b")
    pack_zip(folder, tmp_path / "first.zip")
    digest = digest_of_folder(folder)
    (folder / "b.py").unlink()
    (folder / "b.py").write_text("b")
    pack_zip(folder, tmp_path / "second.zip")
    assert sha256(tmp_path / "first.zip") == sha256(tmp_path / "second.zip")
    (folder / "b.py").write_text("c")
    assert digest_of_folder(folder) != digest


def test_the_version_is_stated_once_and_the_copy_of_the_sources_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "core" / "version.py").read_text()
    assert STATED.findall(text) == [f'VERSION: Final = "{OWN}"']
    (tmp_path / "sources" / "core").mkdir(parents=True)
    (tmp_path / "sources" / "core" / "version.py").write_text(text)
    (tmp_path / "sources" / "build").mkdir()
    monkeypatch.setattr("infra.release.__main__.ROOT", tmp_path / "sources")
    copy_sources(tmp_path / "copied", Version("2.0.0-rc.1"))
    assert 'VERSION: Final = "2.0.0rc1"' in (tmp_path / "copied" / "core" / "version.py").read_text()
    assert not (tmp_path / "copied" / "build").exists()


def test_everything_that_the_command_line_needs_is_locked_with_hashes() -> None:
    """Otherwise, the single file would hold what nobody has looked at."""
    locked = requirements.entries()
    needed = requirements.closure(LINES)
    assert {"kubernetes", "pyyaml", "certifi", "urllib3"} <= set(needed)
    assert all("--hash=sha256:" in locked[name] for name in needed)
    assert "argparse-manpage" not in needed, "it has no wheel"


def test_the_bill_of_materials_lists_each_package_once_with_its_version() -> None:
    made = bill.of_command_line(LINES, VERSION)
    refs = [component["bom-ref"] for component in made["components"]]
    assert len(refs) == len(set(refs))
    assert f"pkg:pypi/pyyaml@{requirements.version_of(requirements.entries()['pyyaml'])}" in refs
    assert made["dependencies"][0]["dependsOn"] == refs


def test_no_text_for_another_channel_is_left_to_fill_in(texts: dict[str, str]) -> None:
    left = {path: re.findall(r"@[A-Z][A-Z0-9_]+@", text) for path, text in texts.items()}
    assert {path: names for path, names in left.items() if names} == {}
    assert yaml.safe_load(texts["krew/fleetwright.yaml"])["spec"]["version"] == "v1.2.3"
    assert all(f'"{variant.name}"' in texts["terraform/variables.tf"] for variant in VARIANTS)


def test_nothing_tells_people_to_install_a_name_that_a_stranger_may_take(texts: dict[str, str]) -> None:
    """Until a release is on an index, the wheel is named by its path or URL."""
    assert not [path for path, text in texts.items() if re.search(r"fleetwright(-eks)?==", text)]


def test_the_action_validates_compares_and_notes_what_later_steps_read(texts: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(texts["github-action/run.sh"])
    made = run_script(script, tmp_path)
    assert made["code"] == "0"
    assert "| nodes |" in made["markdown"]
    assert json.loads(made["sarif"])["runs"]


def test_the_component_declares_what_it_reads(texts: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "gitlab").mkdir()
    (tmp_path / "gitlab" / "fleetwright.yml").write_text(texts["gitlab/fleetwright.yml"])
    assert "can be read" in gitlab_component(tmp_path)


def test_a_wrong_version_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "infra.release", "v1", str(tmp_path / "release")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert ran.returncode == 1
    assert "'v1' is not a version" in ran.stderr
    assert not (tmp_path / "release").exists()


class Notes(BaseHTTPRequestHandler):
    """GitLab's notes of one merge request, two on a page."""

    notes: ClassVar[list[dict[str, Any]]] = []
    tokens: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        page = int(parse_qs(urlsplit(self.path).query)["page"][0])
        self._reply(self.notes[2 * page - 2 : 2 * page], str(page + 1) if len(self.notes) > 2 * page else "")

    def do_POST(self) -> None:
        assert self.path == "/api/v4/projects/7/merge_requests/9/notes"
        self.notes.append({"id": len(self.notes) + 1, "body": self._body()})
        self._reply(self.notes[-1], "")

    def do_PUT(self) -> None:
        note = self.notes[int(self.path.rpartition("/")[2]) - 1]
        note["body"] = self._body()
        self._reply(note, "")

    def _body(self) -> str:
        return str(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"])

    def _reply(self, answer: Any, following: str) -> None:
        self.tokens.add(str(self.headers["PRIVATE-TOKEN"]))
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("X-Next-Page", following)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
        """Say nothing."""


def test_gitlabs_component_keeps_one_comment(texts: dict[str, str], tmp_path: Path) -> None:
    """Other people's notes stay, also those of earlier pages; the second run replaces what the first wrote."""
    _, jobs = yaml.safe_load_all(texts["gitlab/fleetwright.yml"])
    script = jobs["fleetwright"]["script"][-1]
    Notes.notes[:] = [{"id": number, "body": f"note {number}"} for number in (1, 2, 3)]
    with ThreadingHTTPServer(("127.0.0.1", 0), Notes) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        around = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "CI_API_V4_URL": f"http://127.0.0.1:{server.server_address[1]}/api/v4",
            "CI_PROJECT_ID": "7",
            "CI_MERGE_REQUEST_IID": "9",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc",
            "TOKEN": "secret",
        }
        try:
            for text in ("first", "second"):
                (tmp_path / "fleetwright-diff.md").write_text(text)
                subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=around, check=True, timeout=60)  # noqa: S603 - ours
            subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=around | {"TOKEN": ""}, check=True)  # noqa: S603 - ours
        finally:
            server.shutdown()
            thread.join()
    assert [note["body"] for note in Notes.notes] == ["note 1", "note 2", "note 3", "<!-- fleetwright -->\nsecond"]
    assert Notes.tokens == {"secret"}


def test_a_release_names_the_page_that_it_is_given() -> None:
    assert channels.homepage("") == channels.NO_HOMEPAGE
    assert channels.homepage("https://github.com/owner/name/") == "https://github.com/owner/name"
    for wrong in ("http://example.com", "example.com", "https://a b.com", 'https://example.com/"x'):
        with pytest.raises(VersionError, match="is not an address"):
            channels.homepage(wrong)
