"""Model files: saved and reloaded, a learner goes on bit for bit; what is not a whole model file is refused."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.sparse import csr_array

import onsketch
from onsketch import sketch
from onsketch.errors import ModelFileError, OptionError
from onsketch.files import model_file
from onsketch.learners.methods import METHODS

OPTIONS = [
    {},
    {"average": True},
    {"dtype": "float32", "fit_intercept": True},
    {"update": "dual"},
    {"diagonal": True},
    {"l1": 0.01, "l2": 0.01},
]
SKETCHES = [name for name in sketch.__all__ if name not in ("CUTOFF", "Sketch")]


def stream(rows=397, features=24):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, features)) * np.logspace(0, -1, features) * (rng.random((rows, features)) < 0.4)
    return X, np.sign(X @ rng.normal(size=features) + 0.1)


def made(method, options):
    if "kernel" in METHODS[method].concerns:
        options = {"kernel": "linear", **options}  # which has weights
    try:
        return onsketch.learner(method, **options)
    except OptionError:
        pytest.skip("not an option of this method")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("method", sorted(onsketch.methods()))
def test_a_reloaded_learner_resumes_bit_for_bit(method, options, tmp_path):
    X, y = stream()
    stayed = made(method, options)
    stayed.learn(X[:231], y[:231])
    stayed.save(tmp_path / "model")
    came_back = onsketch.load(tmp_path / "model")
    assert came_back.method == stayed.method
    assert came_back.options == stayed.options
    assert (came_back.predict(X) == stayed.predict(X)).all()
    assert (came_back.learn(X[231:], y[231:]) == stayed.learn(X[231:], y[231:])).all()
    assert (came_back.weights == stayed.weights).all()
    stayed.save(tmp_path / "one")
    came_back.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_composed_empty_and_growing_learners(tmp_path):
    X, y = stream()
    composed = onsketch.compose(sketch="oja", geometry="adagrad", update="dual", sketch_size=4)
    composed.learn(X[:100, :10], y[:100])
    composed.save(tmp_path / "composed")
    again = onsketch.load(tmp_path / "composed")
    assert (again.learn(X, y) == composed.learn(X, y)).all()  # of features that were not there before
    for method in ("auto", "adagrad", "rfd-son", "ons", "ada-full", "radagrad"):
        fresh = onsketch.learner(method)
        fresh.save(tmp_path / "empty")
        assert (onsketch.load(tmp_path / "empty").learn(X[:50], y[:50]) == fresh.learn(X[:50], y[:50])).all()


def test_long_absent_features_catch_up_after_reloading(tmp_path):
    """Features that are absent for many epochs of the log of transforms, across a save."""
    rng = np.random.default_rng(0)
    X = np.zeros((3000, 400))
    X[:, :5] = rng.normal(size=(3000, 5))
    X[:50, 5:] = rng.normal(size=(50, 395))
    X[2950:, 5:] = rng.normal(size=(50, 395))
    y = np.sign(rng.normal(size=3000))
    for method in ("rfd-son", "oja-son", "ada-ffd"):
        stayed = onsketch.learner(method, sketch_size=3)
        stayed.learn(X[:1500], y[:1500])
        stayed.save(tmp_path / "model")
        assert (onsketch.load(tmp_path / "model").learn(X[1500:], y[1500:]) == stayed.learn(X[1500:], y[1500:])).all()


def test_a_spectrum_of_any_age_is_saved(tmp_path):
    """Ada-FFD's is worked out anew after 2m updates; with fewer features than that it never shrinks."""
    X, y = stream(rows=40, features=4)
    for size in (3, 4):
        stayed, came_back = (onsketch.learner("ada-ffd", sketch_size=size) for _ in range(2))
        for row in range(40):
            one = X[row : row + 1], y[row : row + 1]
            assert (came_back.learn(*one) == stayed.learn(*one)).all()
            came_back.save(tmp_path / "model")
            came_back = onsketch.load(tmp_path / "model")


@pytest.mark.parametrize("name", SKETCHES)
def test_a_reloaded_sketch_resumes_bit_for_bit(name, tmp_path):
    X, _ = stream()
    stayed = getattr(sketch, name)(*((24,) if name in ("Exact", "Diagonal") else (24, 5)))
    stayed.update(X[:231]).save(tmp_path / "sketch")
    came_back = onsketch.load(tmp_path / "sketch")
    assert (came_back.update(X[231:]).matrix == stayed.update(X[231:]).matrix).all()
    assert repr(came_back) == repr(stayed)


def test_notes_travel_along(tmp_path):
    model = onsketch.learner("adagrad")
    model.save(tmp_path / "model", notes={"labels": ["ham", "spam"]})
    content = model_file.read(tmp_path / "model")
    assert content.notes == {"labels": ["ham", "spam"]}
    assert content.header["method"]["name"] == "adagrad"


def saved(tmp_path, method="adagrad", **options):
    X, y = stream()
    model = onsketch.learner(method, **options)
    model.learn(X, y)
    model.save(tmp_path / "model")
    return tmp_path / "model"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_truncated_and_altered_files_are_refused(data, tmp_path):
    path = tmp_path / "model"
    if not path.exists():
        saved(tmp_path, "ons")
    whole = path.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1), label="length")])
    with pytest.raises(ModelFileError, match="cut"):
        onsketch.load(cut)
    altered = bytearray(whole)
    place = data.draw(st.integers(0, len(whole) - 1), label="place")
    altered[place] ^= data.draw(st.integers(1, 255), label="change")
    cut.write_bytes(bytes(altered))
    with pytest.raises(ModelFileError, match="cut"):
        onsketch.load(cut)


@given(noise=st.binary(max_size=200))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_noise_is_refused(noise, tmp_path):
    (tmp_path / "noise").write_bytes(noise)
    with pytest.raises(ModelFileError, match="noise"):
        onsketch.load(tmp_path / "noise")


def test_foreign_newer_and_missing_files_say_what_they_are(tmp_path):
    save_file({"x": np.zeros(3)}, tmp_path / "foreign")
    with pytest.raises(ModelFileError, match="not one of onsketch's"):
        onsketch.load(tmp_path / "foreign")
    header = {"format": 99, "version": "7.0", "kind": "learner", "notes": {}}
    save_file({"x": np.zeros(3)}, tmp_path / "newer", metadata={"onsketch": json.dumps(header)})
    with pytest.raises(ModelFileError, match=r"onsketch 7\.0 wrote it in format 99.*reads format \d+ only"):
        onsketch.load(tmp_path / "newer")
    header["format"] = 1
    save_file({"x": np.zeros(3)}, tmp_path / "older", metadata={"onsketch": json.dumps(header)})
    with pytest.raises(ModelFileError, match=r"in format 1,.*train the model again"):
        onsketch.load(tmp_path / "older")
    with pytest.raises(ModelFileError, match="no such file"):
        onsketch.load(tmp_path / "missing")
    with pytest.raises(ModelFileError):
        onsketch.load(tmp_path)


CHANGES = {
    "features": np.zeros_like,
    "table.clock": lambda a: a + 1_000_000,
    "table.rows": lambda a: a[:-1],
    "sketch.counts": lambda a: a + 1_000_000,
    "sketch.lines": lambda a: a[:, :-1],
    "sketch.squares": lambda a: a.astype(np.float32),
}


@pytest.mark.parametrize("name", CHANGES)
def test_numbers_that_contradict_each_other_are_refused(name, tmp_path):
    """A file made to look whole, checksum and all, still cannot send the compiled loops out of bounds."""
    content = model_file.read(saved(tmp_path, "rfd-son", sketch_size=5))
    content.arrays[name] = CHANGES[name](content.arrays[name])
    model_file.write(tmp_path / "forged", content.kind, content.header, content.arrays)
    with pytest.raises(ModelFileError, match="forged: the model file is damaged"):
        onsketch.load(tmp_path / "forged")
    del content.arrays[name]
    model_file.write(tmp_path / "forged", content.kind, content.header, content.arrays)
    with pytest.raises(ModelFileError, match="forged: the model file is damaged"):
        onsketch.load(tmp_path / "forged")


def test_a_forged_width_takes_no_memory(tmp_path):
    """It is only a number: what is kept are the features seen."""
    X, y = stream()
    learner = onsketch.learner("adagrad", loss="logistic")
    learner.learn(csr_array(X), y)
    learner.save(tmp_path / "model")
    content = model_file.read(tmp_path / "model")
    wide = content._replace(header={**content.header, "n_features": 2**31})
    tracemalloc.start()
    forged = model_file.build(wide)
    one = csr_array(([1.0], [2**31 - 1], [0, 1]), shape=(1, 2**31))
    forged.predict(one)
    forged.learn(one, [1.0])
    forged.save(tmp_path / "model")
    assert onsketch.load(tmp_path / "model").predict(one) != 0.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = saved(tmp_path)
    before = path.read_bytes()

    def fails(temporary):
        with open(temporary, "w") as file:
            file.write("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        model_file.write_atomically(path, fails)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


def test_a_process_killed_while_saving_leaves_a_whole_file(tmp_path):
    script = textwrap.dedent("""
        import sys
        import numpy as np
        from onsketch.files import model_file
        for i in range(10**6):
            model_file.write(sys.argv[1], "nothing", {"i": i}, {"x": np.full(100_000, float(i))})
            print(i, flush=True)
    """)
    path = tmp_path / "model"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for wait in (0.0, 0.003, 0.01, 0.02):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, env=environment, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        content = model_file.read(path)
        assert (content.arrays["x"] == content.header["i"]).all()


def test_a_file_that_is_shortened_while_it_is_read_is_refused(tmp_path):
    learner = onsketch.learner("adagrad")
    learner.learn(np.ones((1, 20_000)), [1.0])
    learner.save(tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(f"""
            import onsketch
            for _ in range(100):
                try: onsketch.load({str(tmp_path / "m")!r})
                except onsketch.errors.ModelFileError: pass
        """)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    while child.poll() is None:
        with open(tmp_path / "m", "r+b") as file:
            file.write(whole)
        time.sleep(0.002)
        os.truncate(tmp_path / "m", 4096)
    assert child.returncode == 0  # SIGBUS, if the file were mapped into memory


def alter(path, name, array):
    """Write a model file again with another array, and a checksum that fits."""
    content = model_file.read(path)
    header = {key: value for key, value in content.header.items() if key not in ("format", "version")}
    model_file.write(path, content.kind, header, {**content.arrays, name: array}, content.notes)


@pytest.mark.parametrize("method", ["ons", "ada-full", "ada-lr", "radagrad"])
@pytest.mark.parametrize("vector", ["total", "gradient_sum", "diagonal"])
def test_vectors_of_other_lengths_are_refused(tmp_path, method, vector):
    X, y = stream(60, 5)
    learner = onsketch.learner(method, loss="logistic")
    learner.learn(X, y)
    learner.save(tmp_path / "m")
    alter(tmp_path / "m", f"iterate.{vector}", np.ones(3))
    with pytest.raises(ModelFileError, match=rf"iterate\.{vector}"):
        onsketch.load(tmp_path / "m")


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_mode_of_any_new_file_and_the_umask_stays(tmp_path, monkeypatch, mask, mode):
    before, modes = os.umask(mask), []
    replace = os.replace

    def replacing(source, target):
        modes.append(os.stat(source).st_mode & 0o777)
        replace(source, target)

    try:
        umask = os.umask
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask belongs to the whole process"))
        monkeypatch.setattr(model_file.os, "replace", replacing)
        written = []
        model_file.write_atomically(tmp_path / "f", lambda name: written.append(os.stat(name).st_mode & 0o777))
    finally:
        umask(before)
    assert (written, modes) == ([0o600], [mode])


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-120, 1e120])
def test_scales_that_no_rows_lead_to_are_refused(tmp_path, scale):
    X, y = stream(60, 5)
    learner = onsketch.safe_learner("adagrad", loss="logistic")
    learner.learn(X, y)
    learner.save(tmp_path / "m")
    alter(tmp_path / "m", "scaling.law.lengths", np.full(3, scale))
    with pytest.raises(ModelFileError, match=r"law\.lengths"):
        onsketch.load(tmp_path / "m")


def test_labels_next_to_nothing_leave_a_scale_that_can_be_saved(tmp_path):
    learner = onsketch.safe_learner("adagrad", loss="squared")
    learner.learn(np.ones((40, 2)), np.full(40, 5e-324))
    learner.save(tmp_path / "m")
    assert np.isfinite(onsketch.load(tmp_path / "m").learn(np.ones((2, 2)), [1.0, 1e100])).all()


@pytest.mark.parametrize("size", [0, 1, 2])
def test_small_sketches_resume_from_a_file_bit_for_bit(size, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)), np.where(rng.random(600) < 0.5, 1.0, -1.0)
    learner = onsketch.learner("rfd-son", loss="logistic", sketch_size=size)
    learner.learn(X[:300], y[:300])
    learner.save(tmp_path / "model")
    again = onsketch.load(tmp_path / "model")
    assert (again.learn(X[300:], y[300:]) == learner.learn(X[300:], y[300:])).all()
