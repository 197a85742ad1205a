"""Kernels compiled beforehand: a process without any compiler runs them, and computes the same bits."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from checkout import ROOT
from onsketch.jit.library import Library

STEPS = ["text", "summaries", "adagrad float64"]
NO_COMPILER = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
"""


def run(*command, **environment):
    # Libraries are built for the default target, whatever target the other tests run for.
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "ONSKETCH_PROCESSOR": ""} | environment
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("no linker")
    folder = tmp_path_factory.mktemp("library")
    code, output = run(str(ROOT / "kernels" / "build.py"), str(folder), *STEPS)
    assert code == 0, output
    return folder


@pytest.fixture
def without_compiler(tmp_path, library):
    (tmp_path / "sitecustomize.py").write_text(NO_COMPILER)
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    return {"PYTHONPATH": path, "ONSKETCH_KERNEL_FOLDER": str(library)}


def test_a_library_computes_the_same_bits_without_a_compiler(without_compiler):
    code, output = run(str(ROOT / "kernels" / "check.py"), *STEPS, **without_compiler)
    assert code == 0, output
    assert "the same bits" in output


LEARN = "import onsketch; onsketch.learner({name!r}, dtype='float32').learn([[1.0, 2.0]], [1.0])"


def test_a_kernel_that_is_not_there_names_what_to_install(without_compiler):
    code, output = run("-c", LEARN.format(name="adam"), **without_compiler)
    assert code != 0
    assert "onsketch[jit]" in output
    code, output = run("-c", LEARN.format(name="adam"), **without_compiler, ONSKETCH_KERNELS="library")
    assert code != 0
    assert "does not have it" in output


def test_a_library_for_another_processor_or_version_is_left_alone(library, tmp_path):
    listed = json.loads((library / "kernels.json").read_text())
    assert Library(library).fits
    for other in ({"machine": "pdp11"}, {"version": "0.0.1"}, {"processor": "native"}):
        (tmp_path / "kernels.json").write_text(json.dumps(listed | other))
        assert not Library(tmp_path).fits


def test_the_walk_calls_every_kernel_of_the_package(monkeypatch):
    """kernels/build.py writes down what the walk calls; a new kernel needs a step in kernels/walk.py, and a build."""
    monkeypatch.syspath_prepend(str(ROOT / "kernels"))
    build = importlib.import_module("build")
    assert set(build.WALKED.read_text().split()) == build.every_kernel()


def test_importing_the_package_imports_no_compiler():
    learn = "import sys, onsketch; onsketch.learner('rfd-son'); print({'numba', 'llvmlite'} & set(sys.modules))"
    assert run("-c", learn) == (0, "set()\n")


def test_dense_rows_are_learned_without_scipy():
    """It takes up to half a second to import; only what compiles needs it."""
    learn = (
        "import sys, onsketch\n"
        "for name in ('ada-lr', 'radagrad', 'kernel-ogd', 'kons', 'sketched-kons', 'pros-n-kons'):\n"
        "    onsketch.learner(name).learn([[1.0, 2.0], [0.0, 1.0]], [1.0, -1.0])\n"
        "print({name for name in sys.modules if name.startswith('scipy')} if 'numba' not in sys.modules else set())"
    )
    assert [run("-c", learn) for _ in range(2)][1] == (0, "set()\n")  # the first may compile


def test_the_extra_that_compiles_is_what_wheels_without_kernels_depend_on():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = re.search(r"^COMPILER = (\[.*\])$", (ROOT / "hatch_build.py").read_text(), re.MULTILINE)
    assert asked is not None
    assert json.loads(asked[1]) == project["optional-dependencies"]["jit"]


def test_doctor_says_where_kernels_come_from(without_compiler, library):
    code, output = run("-c", "from onsketch.cli import main; main()", "doctor", **without_compiler)
    assert code == 0, output
    assert str(library) in output
    code, output = run("-c", "from onsketch.cli import main; main()", "doctor", ONSKETCH_KERNELS="jit")
    assert code == 0, output
    assert all(word in output for word in ("numba", "ONSKETCH_KERNELS", "jit"))
    code, output = run("-c", "from onsketch.cli import main; main()", "doctor", ONSKETCH_KERNELS="none")
    assert code != 0
    assert "expected auto, library or jit" in output
