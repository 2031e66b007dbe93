"""`python -m infra.release.build VERSION FOLDER HOMEPAGE KEY COMMIT MODIFIED EPOCH`: builds a release from the sources here."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.packaging.build import build_all
from infra.packaging.bundles import BUNDLES
from infra.packaging.manifest import PACKAGE
from infra.release import artefacts, bill, channels, charts, image, programs
from infra.release.archives import digest_of_folder, pack_tar, pack_zip
from infra.release.templates import TEMPLATE_BYTES_MAX, templates, zip_name
from infra.release.version import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One release in the making: its version and page, its folder, a folder for what is not released, the time of all files."""

    version: Version
    homepage: str
    target: Path
    work: Path
    epoch: int


def build_programs(job: Job) -> None:
    """Write the wheel, the single file, the image with the same packages, and the bill of materials of what they hold."""
    python = programs.build_tools(job.work / "tools")
    built = programs.wheel(python, job.target, job.epoch)
    site = programs.single_file(python, built, job.target / programs.file_name(job.version), job.work, job.epoch)
    if platform.system() == "Linux":
        image.write(site, job.target / image.file_name(job.version), job.version)
    made = json.dumps(bill.of_command_line(programs.required(built), job.version), indent=1)
    (job.target / f"fleetwright-{job.version.text}.cdx.json").write_text(made + "\n", encoding="utf-8")


def build_templates(job: Job) -> None:
    """Write the functions' zips and the templates that name them.

    Raises:
        ValueError: If a template is longer than CloudFormation reads.
    """
    build_all()
    digests = {bundle.name: digest_of_folder(PACKAGE / bundle.name) for bundle in BUNDLES}
    (job.target / "lambda").mkdir()
    for name, digest in digests.items():
        pack_zip(PACKAGE / name, job.target / "lambda" / zip_name(name, job.version, digest))
    (job.target / "cloudformation").mkdir()
    for name, template in templates(job.version, digests, job.work / "synthesis").items():
        text = json.dumps(template, separators=(",", ":"))
        if len(text.encode()) > TEMPLATE_BYTES_MAX:
            raise ValueError(f"the template {name} has more than {TEMPLATE_BYTES_MAX} bytes")
        (job.target / "cloudformation" / f"{name}.template.json").write_text(text + "\n", encoding="utf-8")


def build_charts(job: Job) -> None:
    """Write the two Helm charts."""
    (job.target / "charts").mkdir()
    made = {charts.ACCESS: charts.access(job.version), charts.DEFINITIONS: charts.definitions(job.version)}
    for name, files in made.items():
        pack_tar(files, job.target / "charts" / f"{name}-{job.version.text}.tgz")


def build_channels(job: Job) -> None:
    """Write the files for other channels, which name the wheel and the single file."""
    (wheel,), (program,) = job.target.glob("*.whl"), job.target.glob("*.pyz")
    (job.target / "krew").mkdir()
    packed = job.target / "krew" / f"{program.stem}.zip"
    channels.krew_archive(program, packed)
    for name, text in channels.written(channels.values(job.version, wheel, packed, job.homepage)).items():
        path = job.target / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


UNSIGNED: Final = (
    "This release is not signed: make release VERSION=… SIGNING_KEY=FILE, a private SSH key of type ed25519"
)
NO_PAGE: Final = "krew's and Homebrew's files name no page of the project: make release VERSION=… HOMEPAGE=https://…"

STEPS: Final[tuple[Callable[[Job], None], ...]] = (build_programs, build_templates, build_charts, build_channels)
"""In the order of their worth; later ones may read the files of earlier ones."""


def main() -> int:
    """Take every step, then write checksums and release.json."""
    text, folder, page, key, commit, modified, epoch = sys.argv[1:]
    target = Path(folder)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work:
        job = Job(version=Version(text), homepage=page, target=target, work=Path(work), epoch=int(epoch))
        for step in STEPS:
            print(f"release: {step.__name__.replace('_', ' ')}", flush=True)  # noqa: T201 - the program's output
            step(job)
    files = artefacts.collected(target)
    artefacts.write_checksums(target, files)
    if key:
        artefacts.sign_checksums(target, key)
    release = artefacts.Release(
        version=text,
        commit=commit,
        is_modified=bool(modified),
        artefacts=files,
        not_checked=[
            *artefacts.NOT_CHECKED,
            *([] if key else [UNSIGNED]),
            *([NO_PAGE] if page == channels.NO_HOMEPAGE else []),
        ],
    )
    artefacts.write(target, release)
    return 0


if __name__ == "__main__":
    sys.exit(main())
