"""Many classes: one learner each is what it says, one sketch for all equals its definition, new classes may come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import onsketch
from onsketch.errors import InputError, ModelFileError, OptionError, UpdateError
from onsketch.learners.multiclass import OneVersusRest, SharedSketch


def blobs(n: int = 400, d: int = 12, classes: int = 5, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(classes, size=n)
    return rng.normal(size=(classes, d))[codes] + 0.7 * rng.normal(size=(n, d)), codes


def softmax(z: Any) -> Any:
    e = np.exp(z - z.max())
    return e / e.sum()


def slopes_of(loss: str, z: Any, y: int) -> tuple[Any, float]:
    """The slopes, and the mean curvature over the classes."""
    if loss == "softmax":
        p = softmax(z)
        return p - np.eye(len(z))[y], max(1.0 - p @ p, 0.05) / len(z)
    signs = np.where(np.arange(len(z)) == y, 1.0, -1.0)
    if loss == "logistic":
        p = 1.0 / (1.0 + np.exp(signs * z))
        return -signs * p, float(np.maximum(p * (1.0 - p), 0.05).mean())
    return -2.0 * signs * np.maximum(0.0, 1.0 - signs * z), float(np.where(signs * z < 1.0, 2.0, 0.05).mean())


def defined(
    X: Any, codes: Any, classes: int, loss: str, summary: str, size: int, ridge: float, weights: Any
) -> tuple[Any, Any]:
    """Newton with a shared fast RFD sketch, by explicit matrices: margins before each row, and the weights."""
    X = np.hstack([X, np.ones((len(X), 1))])
    d = X.shape[1]
    W, S, sigma = np.zeros((classes, d)), np.zeros((0, d)), 0.125 if loss == "squared_hinge" else np.exp(-1.0)
    margins = []
    for t, (x, y, c) in enumerate(zip(X, codes, weights, strict=True), start=1):
        z = W @ x
        margins.append(z)
        slopes, bend = slopes_of(loss, z, y)
        g = c * slopes
        rho = {
            "data": 1.0,
            "curvature": np.sqrt(c * bend),
            "gradient": np.sqrt((sigma / c + 1.0 / t) * np.mean(g**2)),
        }[summary]
        S = np.vstack([S, rho * x])
        if len(S) == 2 * size:
            _, s, V = np.linalg.svd(S, full_matrices=False)
            shrunk = s[size - 1] ** 2
            S = np.sqrt(np.maximum(s[: size - 1] ** 2 - shrunk, 0.0))[:, None] * V[: size - 1]
            ridge += shrunk / 2.0
        W = W - np.outer(g, np.linalg.solve(ridge * np.eye(d) + S.T @ S, x))
    return np.array(margins), W


@pytest.mark.parametrize("loss", ["softmax", "logistic", "squared_hinge"])
@pytest.mark.parametrize("summary", ["gradient", "data", "curvature"])
def test_a_shared_sketch_is_its_definition(loss: str, summary: str) -> None:
    X, codes = blobs()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    model = SharedSketch("rfd-son", 5, loss=loss, summary=summary, sketch_size=4, ridge=3.0, fit_intercept=True)
    margins = model.learn(X, codes, weights)
    expected, W = defined(X, codes, 5, loss, summary, 4, 3.0, weights)
    np.testing.assert_allclose(margins, expected, atol=1e-8)
    np.testing.assert_allclose(model.weights, W[:, :-1], atol=1e-8)
    np.testing.assert_allclose(model.intercept, W[:, -1], atol=1e-8)
    np.testing.assert_allclose(model.predict(X), X @ W[:, :-1].T + W[:, -1], atol=1e-8)


@pytest.mark.parametrize("ridge", [2.0, None])
@pytest.mark.parametrize("method", ["rfd-son", "fd-son", "pfd-son", "cfd-son", "ada-fd", "s-adagrad"])
def test_a_shared_sketch_of_data_is_one_learner_each(method: str, ridge: float | None) -> None:
    """All K sketches of one-vs-rest are equal when they absorb the rows themselves; so is the ridge not given."""
    X, codes = blobs(seed=2)
    if ridge is None and method.endswith("son"):
        X *= np.geomspace(1.0, 1e5 if method == "rfd-son" else 1e2, len(X))[:, None]
    options: dict[str, Any] = {"loss": "logistic", "summary": "data", "sketch_size": 5, "ridge": ridge, "clip": None}
    shared = SharedSketch(method, 5, fit_intercept=True, **options).learn(X, codes)
    each = OneVersusRest(method, 5, fit_intercept=True, **options).learn(X, codes)
    np.testing.assert_allclose(shared, each, atol=1e-9)


def test_one_versus_rest_is_one_learner_for_each_class() -> None:
    X, codes = blobs()
    margins = OneVersusRest("ada-ffd", 5, loss="hinge", sketch_size=3).learn(X, codes)
    for k in range(5):
        alone = onsketch.learner("ada-ffd", loss="hinge", sketch_size=3)
        assert (alone.learn(X, np.where(codes == k, 1.0, -1.0)) == margins[:, k]).all()


def test_threads_change_nothing() -> None:
    X, codes = blobs(n=3000)  # large enough to be worth threads
    one, four = (OneVersusRest("oja-son", 5, sketch_size=4, threads=threads) for threads in (1, 4))
    assert (one.learn(X, codes) == four.learn(X, codes)).all()
    assert (one.predict(X) == four.predict(X)).all()


def test_a_class_that_comes_late_is_learned_as_if_it_had_been_known() -> None:
    X, codes = blobs(classes=3)
    codes[:200] %= 2  # the third class comes after row 200
    known = OneVersusRest("rfd-son", 3, sketch_size=3)
    known.learn(X, codes)
    late = OneVersusRest("rfd-son", 0, open_ended=True, sketch_size=3)
    for start, stop in [(0, 100), (100, 200), (200, 400)]:
        while late.n_classes <= codes[start:stop].max():
            late.add_class()
        late.learn(X[start:stop], codes[start:stop])
    assert (known.weights == late.weights).all()


def test_a_class_may_be_added_to_a_shared_sketch() -> None:
    X, codes = blobs(n=2000, classes=4)
    order = np.argsort(codes == 3, kind="stable")[:1800]  # most of the last class at the end
    X, codes = X[order], codes[order]
    first = int(np.argmax(codes == 3))
    model = SharedSketch("rfd-son", 3, sketch_size=5, fit_intercept=True)
    model.learn(X[:first], codes[:first])
    before = model.weights
    assert model.add_class() == 3
    np.testing.assert_allclose(model.weights[:3], before)
    model.learn(X[first:], codes[first:])
    assert np.mean(model.predict(X[-100:]).argmax(axis=1) == codes[-100:]) > 0.9


@pytest.mark.parametrize("cut", [1, 7, 400])
def test_blocks_and_formats_change_nothing_but_rounding(cut: int) -> None:
    X, codes = blobs(d=40)
    X[np.abs(X) < 1.0] = 0.0
    whole = SharedSketch("rfd-son", 5, sketch_size=6).learn(X, codes)
    for form in (np.asarray, csr_array):
        model = SharedSketch("rfd-son", 5, sketch_size=6)
        pieces = [model.learn(form(X[i : i + cut]), codes[i : i + cut]) for i in range(0, len(X), cut)]
        np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-9)


def test_wide_sparse_rows_stay_sparse_and_the_width_grows() -> None:
    rng = np.random.default_rng(0)
    X = csr_array((rng.normal(size=600), (np.repeat(np.arange(200), 3), rng.integers(5000, size=600))), (200, 5000))
    codes = rng.integers(3, size=200)
    grown, given = SharedSketch("fd-son", 3, sketch_size=4), SharedSketch("fd-son", 3, sketch_size=4, n_features=5000)
    grown.learn(X[:50, :3000], codes[:50] * 0)
    narrow = csr_array((X[:50, :3000].data, X[:50, :3000].indices, X[:50, :3000].indptr), (50, 5000))
    given.learn(narrow, codes[:50] * 0)
    np.testing.assert_allclose(grown.learn(X, codes), given.learn(X.toarray(), codes), atol=1e-10)
    assert grown.n_features == 5000


@pytest.mark.parametrize("kind", [OneVersusRest, SharedSketch])
def test_a_saved_model_resumes_bit_for_bit(kind: Any, tmp_path: Any) -> None:
    X, codes = blobs(n=300)
    model = kind("rfd-son", 5, sketch_size=4, loss="logistic")
    model.learn(X[:150], codes[:150])
    model.save(tmp_path / "model")
    again = onsketch.load(tmp_path / "model")
    assert type(again) is kind
    assert again.rounds == model.rounds == 150
    assert (again.learn(X[150:], codes[150:]) == model.learn(X[150:], codes[150:])).all()


@pytest.mark.parametrize("intercept", [False, True])
def test_a_row_far_longer_than_others_is_predicted_as_it_is(intercept: bool) -> None:
    X, codes = blobs(n=200)
    X[[120, 121, 150]] *= 1e4  # scales shorten them before they are learned
    options: dict[str, Any] = {"sketch_size": 4, "scaling": "magnitude", "fit_intercept": intercept}
    whole, single = (SharedSketch("rfd-son", 5, loss="logistic", **options) for _ in range(2))
    margins = whole.learn(X, codes)
    for row, code, said in zip(X[:, None], codes[:, None], margins, strict=True):
        np.testing.assert_allclose(single.predict(row)[0], said, rtol=1e-6, atol=1e-6)
        single.learn(row, code)


@pytest.mark.parametrize("name", ["clock", "sketch.numbers", "sketch.lines"])
def test_a_shared_sketch_that_no_rows_can_have_led_to_is_refused(name: str) -> None:
    X, codes = blobs(n=60)
    model = SharedSketch("rfd-son", 5, sketch_size=4, loss="logistic")
    model.learn(X, codes)
    arrays = model._arrays()
    with pytest.raises(ModelFileError, match=name):
        SharedSketch("rfd-son", 5, sketch_size=4)._restore({**arrays, name: -1 - np.abs(arrays[name])}, {})


def test_class_codes_are_no_counts() -> None:
    with pytest.raises(InputError, match="not class codes"):
        SharedSketch("rfd-son", 2, loss="poisson", sketch_size=4).learn([[1.0]], [0])


def test_a_file_whose_numbers_do_not_fit_is_refused(tmp_path: Any) -> None:
    model = SharedSketch("rfd-son", 3, sketch_size=4, n_features=2)
    arrays = model._arrays() | {"heads": np.zeros((9, 3))}
    onsketch.files.model_file.write(tmp_path / "model", "classes", model._header(), arrays)
    with pytest.raises(ModelFileError, match="heads has shape"):
        onsketch.load(tmp_path / "model")


@pytest.mark.parametrize("kind", [OneVersusRest, SharedSketch])
def test_unfit_input_is_refused_and_changes_nothing(kind: Any) -> None:
    X, codes = blobs(n=60)
    model = kind("rfd-son", 5, sketch_size=4, n_features=12)
    model.learn(X, codes)
    before = model.weights
    for rows, labels, match in [
        (np.full((1, 12), np.nan), [0], "row 0, column 0 is nan"),
        (X[:1], [5], "class code at row 0 is 5; expected 0 to 4"),
        (X[:1], [0.5], "whole numbers"),
        (X[:2], [0], "shape"),
        (X[:1, :3], [0], "has 3 features"),
    ]:
        with pytest.raises(InputError, match=match):
            model.learn(rows, np.array(labels))
    assert (model.weights == before).all()


@pytest.mark.parametrize("kind", [OneVersusRest, SharedSketch])
def test_a_row_that_cannot_be_learned_leaves_all_classes_alike(kind: Any) -> None:
    X, codes = blobs(n=60)
    model = kind("rfd-son", 5, sketch_size=4, ridge=1e-30, loss="squared_hinge", clip=None)
    model.learn(X[:40], codes[:40])
    wild = np.vstack([X[40:42], np.full((1, 12), 1e140), X[43:]])
    with pytest.raises(UpdateError, match=r"row 2: .* The 2 rows before it have been learned") as caught:
        model.learn(wild, codes[40:])
    assert caught.value.predictions.shape == (2, 5)
    twin = kind("rfd-son", 5, sketch_size=4, ridge=1e-30, loss="squared_hinge", clip=None)
    twin.learn(X[:42], codes[:42])
    if kind is OneVersusRest:
        assert (model.weights == twin.weights).all()
    else:  # how the stream is cut into blocks changes the rounding of a shared sketch
        np.testing.assert_allclose(model.weights, twin.weights, rtol=1e-9, atol=1e-12)
    model.learn(X[40:], codes[40:])
    assert np.isfinite(model.weights).all()


REFUSING: dict[str, dict[str, Any]] = {
    "ogd": {"step_size": 1e60},
    "adagrad": {"step_size": 1e60},
    "rfd-son": {"ridge": 1e-60, "clip": None},
    "ada-ffd": {"step_size": 1e60, "sketch_size": 3},
    "oja-son": {"ridge": 1e-60, "clip": None, "sketch_size": 3},
    "ons": {"ridge": 1e-60, "clip": None},
    "auto": {},
    "pros-n-kons": {"kernel": "linear", "ridge": 1e-20, "clip": None},
}
"""Methods with options under which a row of moderate size may be refused."""


@pytest.mark.parametrize("method", REFUSING)
@given(data=st.data())
@settings(max_examples=15)
def test_a_refused_row_is_as_if_it_had_never_come(method: str, data: Any) -> None:
    """Whatever the class that refuses it, the cut of the stream, and its size; new features and classes included."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    options = {"loss": "squared_hinge", "fit_intercept": True, **REFUSING[method]}
    model, twin = (OneVersusRest(method, 3, open_ended=True, **options) for _ in range(2))
    for _ in range(data.draw(st.integers(2, 8))):
        n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(3, 6))
        X, codes = rng.normal(size=(n, d)), rng.integers(model.n_classes, size=n)
        X *= 10.0 ** rng.choice([0, 0, 9, 60, 120, 145], size=(n, 1))
        while True:
            try:
                margins = model.learn(X, codes)
            except UpdateError as refused:
                error = refused
                before = [learner._arrays() for learner in twin.learners]
                assert (twin.learn(X[: error.row], codes[: error.row]) == error.predictions).all()
                X, codes = X[error.row + 1 :], codes[error.row + 1 :]
                if not error.row:  # nothing at all has changed
                    for learner, arrays in zip(model.learners, before, strict=True):
                        assert {k: v.tolist() for k, v in learner._arrays().items()} == {
                            k: v.tolist() for k, v in arrays.items()
                        }
            else:
                assert (twin.learn(X, codes) == margins).all()
                break
        if data.draw(st.booleans()):
            assert model.add_class() == twin.add_class()
        assert model.n_features == twin.n_features
        assert model.rounds == twin.rounds
        probe = rng.normal(size=(4, model.n_features))
        assert (model.predict(probe) == twin.predict(probe)).all()


def test_a_kernel_that_fails_leaves_all_classes_alike() -> None:
    """It fails at one row, and only when the first class has learned that row and all that follow."""
    X, codes = blobs(n=60)
    marked = X[40]

    def failing(A: Any, B: Any) -> Any:
        if model.learners[0].rounds == 60 and any((block == marked).all(axis=1).any() for block in (A, B)):
            raise RuntimeError("out of luck")
        return A @ B.T

    model = OneVersusRest("pros-n-kons", 5, kernel=failing, loss="squared_hinge")
    model.learn(X[:20], codes[:20])
    before = model.predict(X)
    with pytest.raises(RuntimeError, match="out of luck") as caught:
        model.learn(X[20:], codes[20:])
    assert "No class has learned" in caught.value.__notes__[0]
    assert [learner.rounds for learner in model.learners] == [20] * 5
    assert (model.predict(X) == before).all()


def test_a_file_whose_classes_have_seen_other_features_is_refused(tmp_path: Any) -> None:
    X, codes = blobs(n=60)
    model = OneVersusRest("adagrad", 5)
    model.learn(X, codes)
    arrays = dict(model._arrays())
    narrow = OneVersusRest("adagrad", 5)
    narrow.learn(X[:, :-1], codes)
    arrays |= {name: array for name, array in narrow._arrays().items() if name.startswith("3.")}
    onsketch.files.model_file.write(tmp_path / "mixed", "classes", model._header(), arrays)
    with pytest.raises(ModelFileError, match="other features"):
        onsketch.load(tmp_path / "mixed")


def test_combinations_without_meaning_are_refused() -> None:
    for options, match in [
        ({"method": "adagrad"}, "has no sketch to share"),
        ({"method": "oja-son"}, "use one of"),
        ({"method": "rfd-son", "clip": 1.0}, "not clipped"),
        ({"method": "rfd-son", "sketch_size": 0}, "nothing to share"),
        ({"method": "rfd-son", "average": True}, "does not concern"),
        ({"method": "rfd-son", "forget": 0.9}, "does not concern"),
    ]:
        with pytest.raises(OptionError, match=match):
            SharedSketch(n_classes=3, **options)
    with pytest.raises(OptionError, match="softmax needs multiclass='shared'"):
        OneVersusRest("rfd-son", 3, loss="softmax")
    with pytest.raises(OptionError, match="open_ended"):
        OneVersusRest("rfd-son", 3).add_class()
