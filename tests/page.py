"""Open a report in headless Chromium and use it as a person would: `python -m tests.page FILE [--screenshots FOLDER]`.

`--screens FOLDER` draws what the programs show of the demo's cluster as it was after `STOPPED_AFTER`: the screen of `top`, the
console's page, and the comment on a pull request.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import timedelta
from html import escape, unescape
from io import StringIO
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt

from cli.__main__ import _parser
from cli.answers.top import BOLD, DIM, REVERSE, Observation, View, frame
from cli.commands.cluster import observe
from core.manifests.wire import resources
from simulator.aws.installation import read_region
from simulator.clock import VirtualClock
from simulator.record import Recorder
from simulator.scenario import read_scenario
from simulator.world import QUICK, open_world, seeded

VARIABLE = "CHROMIUM"
"""Names the program, where none of the usual names is on the PATH."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS_MAX = 180
WIDTHS = (390, 820, 1280)
SCHEMES = {"dark": 0, "light": 1}
HEIGHT = 2600
PICTURE = (1100, 1330)
"""Size of README's picture: the figures and the charts, without the list of commands."""
_TIMED = re.compile(r", simulated in [\d.]+ s by")
"""How long the run took here; it would change the picture with every run."""
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync "
    "--hide-scrollbars --virtual-time-budget=2000"
)
_USE = """
<script>addEventListener("error", (event) => { (window.broken ??= []).push(event.message); });</script>
</head>"""
_CLICKS = """
<script>(() => {
  const by = (id) => document.getElementById(id);
  const shown = () => document.querySelectorAll("#decisions tbody tr:not([hidden])").length;
  const told = { broken: window.broken ?? [], charts: document.querySelectorAll(".chart canvas").length, all: shown() };
  told.painted = [...document.querySelectorAll(".chart canvas")].every((canvas) => {
    const seen = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return seen.some((value) => value > 0);
  });
  const bar = document.querySelector("#timeline button");
  bar.click();
  told.node = { panel: !by("life").hidden, hash: location.hash, rows: shown(), heading: by("life").textContent };
  document.querySelector("#timeline button").click();
  told.after = { panel: !by("life").hidden, rows: shown() };
  const plots = by("plots");
  plots.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
  told.readout = by("readout").textContent;
  plots.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
  told.zoomed = { hash: location.hash, button: !by("reset").hidden };
  by("reset").click();
  told.whole = { hash: location.hash, button: !by("reset").hidden };
  by("filter").value = "zzz"; by("filter").dispatchEvent(new Event("input"));
  told.filtered = { rows: shown(), count: by("count").textContent, hash: location.hash };
  told.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const made = document.createElement("pre");
  made.id = "told"; made.textContent = JSON.stringify(told); document.body.append(made);
})();</script></body>"""


def browser() -> str | None:
    """Path of an installed Chromium, or None: the program that `CHROMIUM` names, else one with a usual name on the PATH.

    Raises:
        FileNotFoundError: If `CHROMIUM` names no program.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if shutil.which(named) is None:
            raise FileNotFoundError(
                f"{VARIABLE}={named}: there is no such program; name an installed Chromium, or nothing"
            )
        return shutil.which(named)
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def used(page: Path, program: str) -> dict[str, Any]:
    """What a person who clicks, presses keys and filters would see; the page is used in a copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "page.html"
        text = page.read_text(encoding="utf-8")
        copy.write_text(text.replace("</head>", _USE, 1).replace("</body>", _CLICKS, 1), encoding="utf-8")
        dom = _run(program, copy.as_uri(), "--window-size=390,1200", "--dump-dom")
    found = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)
    told: dict[str, Any] = json.loads(unescape(found.group(1))) if found else {}
    return told


def drawn(page: Path, program: str, fragment: str) -> str:
    """The page as its script has made it, with this fragment in its address."""
    return _run(program, f"{page.resolve().as_uri()}#{fragment}", "--window-size=1280,1200", "--dump-dom")


def problems(told: dict[str, Any]) -> list[str]:
    """What a person would miss on the page."""
    if not told:
        return ["its script did not run to the end"]
    checks = (
        (not told["broken"], f"its script failed: {told['broken']}"),
        (told["charts"] == 4 and told["painted"], "a chart is missing or empty"),
        (told["all"] > 0, "there is no command"),
        (told["node"]["panel"] and "launched" in told["node"]["heading"], "a click on a node does not show its life"),
        ("node=" in told["node"]["hash"], "the node is not in the address"),
        (0 < told["node"]["rows"] <= told["all"], "a click on a node does not filter the commands"),
        (not told["after"]["panel"] and told["after"]["rows"] == told["all"], "a second click does not go back"),
        ("an hour" in told["readout"], "the arrow keys do not move the cursor"),
        ("t=" in told["zoomed"]["hash"] and told["zoomed"]["button"], "zooming is not in the address"),
        (told["whole"] == {"hash": "", "button": False}, "`Show all` does not show all"),
        (told["filtered"]["rows"] == 0 and "q=zzz" in told["filtered"]["hash"], "the filter does nothing"),
        (told["overflow"] <= 0, "a phone has to scroll sideways"),
    )
    return [problem for holds, problem in checks if not holds]


def screenshots(page: Path, program: str, folder: Path) -> list[Path]:
    """Three widths, light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _photographed(page, program, (width, HEIGHT), scheme, folder / f"{page.stem}-{width}-{scheme}.png")
        for width in WIDTHS
        for scheme in SCHEMES
    ]


def pictures(page: Path, program: str, folder: Path) -> list[Path]:
    """README's picture, light and dark."""
    with tempfile.TemporaryDirectory() as copied:
        copy = Path(copied) / "page.html"
        copy.write_text(_TIMED.sub(", simulated by", page.read_text(encoding="utf-8")), encoding="utf-8")
        return [
            _photographed(copy, program, PICTURE, scheme, folder / f"{page.stem}-{scheme}.png") for scheme in SCHEMES
        ]


ROOT: Final = Path(__file__).parents[1]
STOPPED_AFTER: Final = timedelta(minutes=90)
"""Into the demo's night: the shop is large, and no spot instance has been reclaimed yet."""

WIDTH, LINES, CHARACTER, LINE = 132, 30, 7.9, 18
"""The screen of `top` in characters, and a character's width and a line's height in pixels."""

CONSOLE_PICTURE, COMMENT_PICTURE = (1280, 900), (640, 350)
_COMMENT: Final = """<!doctype html><meta charset="utf-8"><style>
body { font: 14px/1.5 sans-serif; margin: 16px; color: #1f2328 }
main { border: 1px solid #d1d9e0; border-radius: 6px } main > * { margin: 16px }
header { background: #f6f8fa; border-bottom: 1px solid #d1d9e0; margin: 0; padding: 8px 16px }
table { border-collapse: collapse } td, th { border: 1px solid #d1d9e0; padding: 6px 13px }
</style><main><header><b>github-actions</b> commented</header>"""
_KEPT: Final = "\u00a0"
"""A space that browsers do not join with the one before it."""
_LOOKS: Final = {
    BOLD: 'font-weight="bold"',
    DIM: 'fill="#8b949e"',
    REVERSE: 'fill="#0d1117"',
}


def screens(folder: Path, program: str | None) -> list[Path]:
    """Play the demo's night to `STOPPED_AFTER`, write its cluster, and draw what shows it; without Chromium, `top` alone."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster, now = folder / "cluster.json", _write_cluster(folder / "cluster.json")
    given = ["-f", str(cluster), "--now", now]
    made = [_drawn_screen(given, folder / "top.svg")]
    if program is not None:
        made.append(_photographed_console(given, program, folder / "console.png"))
        made.append(_photographed_comment(program, folder / "comment.png"))
    return made


def _write_cluster(target: Path) -> str:
    """Write the cluster of the demo's night as `kubectl get … -o json` would; return its time."""
    scenario = read_scenario(ROOT / "examples" / "demo.yaml")
    clock = VirtualClock(scenario.start)
    recorder = Recorder(clock)
    region = read_region(scenario.catalogue_file)
    with seeded(1), redirect_stdout(StringIO()), open_world(scenario, region, 1, recorder, clock, QUICK) as world:
        world.play([])
        clock.run_until(scenario.start + STOPPED_AFTER)
        items = [item for resource in resources.ALL for item in world.cluster.store.all(resource)]
    target.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
    return f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"


def _drawn_screen(given: Sequence[str], target: Path) -> Path:
    """Draw the screen of `top` once it is known why nodes stay or go."""
    seen: list[Observation] = []
    words = ["top", *given, "--improve-iterations", "200"]
    observe(_parser(words).parse_args(words), seen.append)
    rows = []
    for number, line in enumerate(frame(seen[-1], View(), WIDTH, LINES)):
        at = (number + 1) * LINE
        if line.style == REVERSE:
            rows.append(f'<rect x="8" y="{at - 13}" width="{WIDTH * CHARACTER:.0f}" height="{LINE}" fill="#c9d1d9"/>')
        rows.append(f'<text x="8" y="{at}" {_LOOKS.get(line.style, "")}>{escape(line.text).replace(" ", _KEPT)}</text>')
    width, height = round(WIDTH * CHARACTER) + 16, LINES * LINE + 12
    target.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" fill="#c9d1d9" font-size="13" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">'
        f'<rect width="{width}" height="{height}" rx="6" fill="#0d1117"/>\n' + "\n".join(rows) + "\n</svg>\n",
        encoding="utf-8",
    )
    return target


def _photographed_console(given: Sequence[str], program: str, target: Path) -> Path:
    """Serve the console on a free port, and take a picture of its first tab."""
    command = [sys.executable, "-m", "cli", "console", "--port", "0", *given]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as serving:  # noqa: S603 - ours
        try:
            assert serving.stderr is not None
            address = next(word for line in serving.stderr for word in line.split() if word.startswith("http://"))
            look = ["--window-size=" + ",".join(map(str, CONSOLE_PICTURE)), f"--screenshot={target.resolve()}"]
            _run(program, address, *look, "--virtual-time-budget=60000")
        finally:
            serving.terminate()
    return target


def _photographed_comment(program: str, target: Path) -> Path:
    """Take a picture of the comment that the Action keeps: here a pull request adds the GPU workload to the shop."""
    work, pools = (ROOT / "examples" / name for name in ("workloads", "pools"))
    command = [sys.executable, "-m", "cli", "diff", "-f", str(pools), "--from", str(work / "shop.yaml"), "--to"]
    command += [str(work / "shop.yaml"), str(work / "gpu.yaml"), "-o", "markdown"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ours
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "comment.html"
        page.write_text(_COMMENT + MarkdownIt().enable("table").render(said), encoding="utf-8")
        return _photographed(page, program, COMMENT_PICTURE, "light", target)


def _photographed(page: Path, program: str, size: tuple[int, int], scheme: str, target: Path) -> Path:
    look = (f"--window-size={size[0]},{size[1]}", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}")
    _run(program, page.resolve().as_uri(), *look, f"--screenshot={target.resolve()}")
    return target


def _run(program: str, address: str, *more: str) -> str:
    with tempfile.TemporaryDirectory() as profile:
        command = [program, *FLAGS.split(), f"--user-data-dir={profile}", *more, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)  # noqa: S603 - a fixed program on a file of ours
    return done.stdout


def main(given: Sequence[str]) -> int:
    """Exit 0 when the page is fine or no browser is here to tell, else 1."""
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--screens", type=Path)
    arguments = parser.parse_args(given)
    if arguments.screens is not None:
        print("\n".join(map(str, screens(arguments.screens, browser()))))  # noqa: T201
    page, program = arguments.page, browser()
    if program is None:
        print(f"open {page} in a browser (no Chromium is here to try it first)", file=sys.stderr)  # noqa: T201
        return 0
    found = problems(used(page, program))
    print(f"open {page} in a browser ({'; '.join(found) or 'tried in Chromium'})", file=sys.stderr)  # noqa: T201
    if arguments.screenshots is not None:
        made = screenshots(page, program, arguments.screenshots) + pictures(page, program, arguments.screenshots)
        print("\n".join(map(str, made)))  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
