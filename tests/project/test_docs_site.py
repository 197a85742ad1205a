"""The site builds without a warning, with a page for every method and every committed result."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from checkout import ROOT
from onsketch.experiments import every
from onsketch.experiments.outcome import read
from onsketch.learners.methods import METHODS

RESULTS = sorted((ROOT / "docs" / "results").glob("*.json"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_committed_results_are_still_understood(path):
    experiment, outcome = every()[path.stem], read(path)
    assert outcome.effort in ("short", "full")
    assert outcome.command.startswith("onsketch reproduce")
    for _, verdict in outcome.verdicts(experiment):
        assert verdict.words
    assert all(chart.lines for chart in experiment.charts(outcome.rows))


def test_results_are_small():
    assert sum(path.stat().st_size for path in (ROOT / "docs" / "results").iterdir()) < 1_000_000


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("material", reason="the site needs the extra docs: pip install 'onsketch[docs]'")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    titles = {word: [d["location"] for d in found if word in d["title"]] for word in ("adagrad", "LIBSVM")}
    assert "reference/methods/adagrad/" in titles["adagrad"]
    assert titles["LIBSVM"]
    for name in METHODS:
        assert (tmp_path / "site" / "reference" / "methods" / name / "index.html").is_file()
    for path in RESULTS:
        paper = every()[path.stem].paper.name
        page = (tmp_path / "site" / "papers" / paper / "index.html").read_text(encoding="utf-8")
        assert every()[path.stem].title.replace("'", "’") in page.replace("'", "’").replace("&#x27;", "’")
    shown = (tmp_path / "site" / "reference" / "api" / "data" / "index.html").read_text(encoding="utf-8")
    assert "&gt;&gt;&gt;" in shown or 'class="gp"' in shown  # examples are code, not quotations
