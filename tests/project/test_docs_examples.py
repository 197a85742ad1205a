"""Every code block in the README and the documentation runs and prints what it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from examples import ROOT, agree, blocks, pages, run_page
from program import PROGRAM, environment

sys.path.insert(0, str(ROOT / "examples"))
from churn import write_customers

WITH_ALL = ("train", "compare", "serve")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in pages() if blocks(p, "python", "pycon", "console")], ids=_name)
def test_the_examples_of_a_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch):
    if "onsketch.torch" in page.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    write_customers("customers.csv", 5_000, seed=1)  # the README's file
    write_customers("tomorrow.csv", 2_000, seed=2)
    run_page(page)


def _calls() -> list[tuple[str, list[str]]]:
    """Return (page, words) of every call of the program that a page shows."""
    found = []
    for page in pages():
        for block in blocks(page, "sh", "console"):
            for line in block.code.replace("\\\n", " ").splitlines():
                for part in re.split(r" && | \| ", line.removeprefix("$ ").partition(" #")[0]):
                    if part.split()[:1] == ["onsketch"]:
                        found.append((_name(page), shlex.split(part)[1:]))
    return found


@pytest.mark.slow
def test_every_option_of_the_program_that_a_page_shows_exists():
    helps: dict[str, str] = {}
    for page, words in _calls():
        command = next((word for word in words if not word.startswith("-")), "")
        if command not in helps:
            helps[command] = subprocess.run(
                [*PROGRAM, *([command] if command else []), "--help-all" if command in WITH_ALL else "--help"],
                capture_output=True, text=True, check=True, env=environment(COLUMNS="200"),
            ).stdout  # fmt: skip
        for word in words:
            option = word.partition("=")[0]
            if re.fullmatch(r"--?[a-z][\w-]*", option):
                assert re.search(rf"(?<![\w-]){option}(?![\w-])", helps[command]), f"{page}: {command} {option}"


def test_numbers_may_differ_a_little_and_words_may_not():
    assert agree("accuracy 0.971\n", "accuracy 0.968")
    assert not agree("accuracy 0.90", "accuracy 0.97")
    assert not agree("error 0.97", "accuracy 0.97")
    assert agree("a b 17 c 2", "a ... c 2")
    assert not agree("a b 17 c 2", "a ... c 3")


def test_the_tables_of_the_torch_study_are_those_of_its_results():
    report = [sys.executable, str(ROOT / "benchmarks" / "torch_training_report.py"), "--check"]
    assert subprocess.run(report, check=False).returncode == 0
