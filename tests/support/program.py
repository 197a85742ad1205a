"""The program as tests call it: in this process, or as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

import onsketch
from onsketch.cli import app

PROGRAM = [sys.executable, "-c", "from onsketch.cli import main; main()"]


def run(*arguments, **env):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200", **env})


def shell(arguments, **options):
    """The real thing, through a shell: its arguments may redirect and pipe."""
    command = f"{sys.executable} -c 'from onsketch.cli import main; main()' {arguments}"
    return subprocess.run(command, shell=True, capture_output=True, env=environment(), check=True, **options)


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(Path(onsketch.__file__).parents[1]), **more}


def check_message(result, code, text):
    """Check the exit code and the one line of the reason: never a traceback."""
    assert result.exit_code == code, result.output
    assert text in " ".join(result.stderr.replace("│", " ").split())
