"""What a terminal shows, narrow and wide: lines that fit, the bar on a line of its own, colour where it is wanted."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import termios
from contextlib import suppress

import numpy as np
import pytest

from program import PROGRAM, environment

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def watched(width: int, *arguments: object, **more: str) -> str:
    """All that a program writes to a terminal of this width."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    env = {name: value for name, value in environment(TERM="xterm-256color", **more).items() if name != "COLUMNS"}
    try:
        process = subprocess.Popen([*PROGRAM, *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave, env=env)
    finally:
        os.close(slave)
    parts = []
    with open(master, "rb", buffering=0) as shown, suppress(OSError):  # an error: the other side has gone
        while part := shown.read(65536):
            parts.append(part)
    assert process.wait(60) == 0, b"".join(parts)
    return b"".join(parts).decode()


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{rng.integers(2)} 1:{rng.normal():.3f} 2:{rng.normal():.3f}\n" for _ in range(5000)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_line_fits_and_the_bar_has_its_own(width, rows):
    text = watched(width, "train", rows, "-l", "adagrad", "--block-rows", 500, "--passes", 2)
    shown = [line for piece in ESCAPE.sub("", text).split("\n") for line in piece.rstrip("\r").split("\r")]
    assert max(map(len, shown)) <= width
    assert any("━" in line for line in shown)
    for line in shown:
        if "━" in line:  # a bar, and nothing of the table
            assert re.fullmatch(r"[\d,]+ rows [━╸╺ ]+ loss [\d.e+-]+( .*)?", line.strip()), line
    assert re.search(r"^ *4,096 ", "\n".join(shown), flags=re.MULTILINE) if width == 40 else "4,096" in text


@pytest.mark.slow
def test_without_colour_there_is_none(rows):
    text = watched(80, "train", rows, "-l", "adagrad", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", text)  # no ink is set
    piped = subprocess.run(
        [*PROGRAM, "train", rows, "-l", "adagrad"], capture_output=True, check=True, env=environment()
    )
    assert b"\x1b" not in piped.stdout + piped.stderr
    assert b"4,096" in piped.stdout
