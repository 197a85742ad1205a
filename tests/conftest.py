"""What all tests share."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

# A shell without job control starts what runs in the background with SIGINT ignored, nohup ignores SIGHUP, and children
# inherit that; the tests of signals mean the ordinary case.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Bits are compared across processes, and sums by several BLAS threads have others; two test workers fill two cores.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, so that no deadline would mean anything.
settings.register_profile("onsketch", deadline=None, print_blob=True)
settings.load_profile("onsketch")


@pytest.fixture(autouse=True)
def every_file_written_can_be_read(monkeypatch):
    """Whatever a test saves is built again, by the checks that a file from elsewhere goes through."""
    from onsketch.files import model_file

    write = model_file.write

    def checked(path, kind, header, arrays, notes=None):
        write(path, kind, header, arrays, notes)
        if kind in model_file._KINDS and sys._getframe(1).f_globals["__name__"].startswith("onsketch."):  # not forged
            model_file.load(path)

    monkeypatch.setattr(model_file, "write", checked)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


FAILED = pytest.StashKey[bool]()


@pytest.fixture(autouse=True)
def nothing_is_left_running(request, monkeypatch):
    """A test ends the processes that it starts; those that a failed test leaves are ended here."""
    started, begin = [], subprocess.Popen.__init__

    def remembered(self, *arguments, **options):
        started.append(self)
        begin(self, *arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", remembered)
    yield
    processes = [process for process in started if hasattr(process, "pid") and process.poll() is None]
    for process in processes:
        process.kill()
        process.wait()
    for pipe in (pipe for process in started for pipe in (process.stdin, process.stdout, process.stderr)):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()
    left = [process.args for process in processes]
    assert request.node.stash.get(FAILED, False) or not left, f"still running after the test: {left}"


@pytest.fixture
def ten(tmp_path):
    """A file of ten rows of two classes."""
    path = tmp_path / "ten.svm"
    path.write_text("1 1:1 2:0.5\n-1 2:1\n" * 5)
    return path
