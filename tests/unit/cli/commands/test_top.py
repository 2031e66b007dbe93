"""`top`: the cluster is read beside the screen, and a real terminal is given back as it was."""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.commands import top
from cli.commands.top import Reader
from cli.errors import InputError

ROOT = Path(__file__).parents[4]
DEADLINE = 60.0


def test_a_reading_that_fails_is_said_and_the_last_one_stays() -> None:
    left: list[Any] = ["first", InputError("no answer"), RuntimeError("bug"), "second"]

    def read(show: Any) -> None:
        step = left.pop(0)
        if isinstance(step, Exception):
            raise step
        show(step)

    reader = Reader(read, 0)
    problems = []
    while left:
        reader.read_once()
        problems.append((reader.found, reader.problem))
    assert problems == [
        ("first", ""),
        ("first", "no answer"),
        ("first", "internal error: RuntimeError: bug"),
        ("second", ""),
    ]


@pytest.mark.parametrize("text", ["0", "1.9", "-5", "nan", "inf", "soon"])
def test_readings_are_some_seconds_apart(text: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    top.configure(parser)
    assert parser.parse_args(["--every", "2"]).every == 2
    with pytest.raises(argparse.ArgumentError, match="is not a number of seconds"):
        parser.parse_args(["--every", text])


def test_a_user_looks_around_in_a_real_terminal(cluster: list[str]) -> None:
    main, side = pty.openpty()
    command = (sys.executable, "-m", "cli", "top", *cluster)
    process = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, cwd=ROOT)  # noqa: S603 - our own command
    os.close(side)
    try:
        screen = _until(main, r"1 node 1|deciding|0 nodes")
        os.write(main, b"3")
        screen += _until(main, "shop/huge")
        os.write(main, b"q")
        screen += _rest(main)
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.wait(DEADLINE)
    os.close(main)
    assert screen.startswith("\x1b[?1049h")
    assert screen.rstrip().endswith("\x1b[?25h\x1b[?1049l")


def _until(descriptor: int, wanted: str) -> str:
    text, end = "", time.monotonic() + DEADLINE
    while not re.search(wanted, text):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{wanted} did not appear: {text!r}"
        text += os.read(descriptor, 65536).decode()
    return text


def _rest(descriptor: int) -> str:
    text = ""
    try:
        while select.select([descriptor], [], [], 0.5)[0]:
            read = os.read(descriptor, 65536)
            if not read:
                break
            text += read.decode()
    except OSError:  # the other side is closed
        pass
    return text
