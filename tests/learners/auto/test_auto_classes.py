"""The default learner of many classes: what must not matter to it, how it learns, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import onsketch
from onsketch.errors import InputError, ModelFileError, OptionError, UpdateError
from onsketch.learners.auto.classes import AutoClasses
from onsketch.learners.auto.upkeep import sketched
from streams import blobs


def text(n: int = 400, words: int = 3000, classes: int = 5, seed: int = 0, length: int = 30) -> tuple[Any, Any]:
    """Zipf words, each topic with words of its own."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(classes, size=n)
    popularity = 1.0 / np.arange(1, words + 1)
    favours = popularity * np.exp(1.5 * rng.normal(size=(classes, words)))
    favours /= favours.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(length, favours[k]) for k in codes], dtype=float)
    return csr_array(counts), codes


STREAMS: dict[str, Any] = {
    "few": blobs,
    "dense": lambda: blobs(d=430, n=150),
    "wide": text,
}
"""A stream for exact metrics, for dense rows and a sketch, and for words."""


def learned(model: Any, X: Any, codes: Any, weights: Any = None, cuts: Any = ()) -> Any:
    edges = [0, *cuts, len(codes)]
    parts = [
        model.learn(X[a:b], codes[a:b], None if weights is None else weights[a:b])
        for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]
    return np.vstack(parts)


# --- what must not matter


@pytest.mark.parametrize("way", STREAMS)
def test_how_a_stream_is_cut_does_not_matter(way: str) -> None:
    X, codes = STREAMS[way]()
    K = codes.max() + 1
    whole, cut, single = (AutoClasses("auto", K) for _ in range(3))
    expected = whole.learn(X, codes)
    assert (learned(cut, X, codes, cuts=(1, 7, 60, 61)) == expected).all()
    assert (learned(single, X, codes, cuts=range(1, len(codes))) == expected).all()
    for other in (cut, single):
        assert (other.predict(X) == whole.predict(X)).all()


@pytest.mark.parametrize("way", STREAMS)
def test_sparse_and_dense_rows_are_the_same(way: str) -> None:
    X, codes = STREAMS[way]()
    dense = X.toarray() if hasattr(X, "toarray") else X
    one, two = (AutoClasses("auto", codes.max() + 1) for _ in range(2))
    assert (one.learn(dense, codes) == two.learn(csr_array(dense), codes)).all()
    assert (one.predict(csr_array(dense)) == two.predict(dense)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("way", STREAMS)
def test_a_saved_model_resumes_bit_for_bit(way: str, dtype: str, tmp_path: Any) -> None:
    X, codes = STREAMS[way]()
    half = len(codes) // 2
    model = AutoClasses("auto", codes.max() + 1, dtype=dtype)
    model.learn(X[:half], codes[:half])
    model.save(tmp_path / "model")
    again = onsketch.load(tmp_path / "model")
    assert (again.rounds, again.n_features) == (half, model.n_features)
    assert (again.predict(X) == model.predict(X)).all()
    assert (again.learn(X[half:], codes[half:]) == model.learn(X[half:], codes[half:])).all()
    assert again.add_class() == model.add_class()
    assert (again.predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("way", STREAMS)
def test_the_order_of_classes_does_not_matter(way: str) -> None:
    X, codes = STREAMS[way]()
    K = codes.max() + 1
    order = np.random.default_rng(5).permutation(K)
    one, two = AutoClasses("auto", K).learn(X, codes), AutoClasses("auto", K).learn(X, order[codes])
    np.testing.assert_allclose(two[:, order], one, atol=1e-5)


def test_units_do_not_matter() -> None:
    X, codes = blobs(n=400)
    other = X * 10.0 ** np.arange(-9, 9, 3)
    one, two = (AutoClasses("auto", 4).learn(rows, codes)[100:].argmax(axis=1) for rows in (X, other))
    assert abs(np.mean(one != codes[100:]) - np.mean(two != codes[100:])) < 0.02


def test_float32_is_close_to_float64() -> None:
    for make in STREAMS.values():
        X, codes = make()
        K = codes.max() + 1
        one, two = (AutoClasses("auto", K, dtype=dtype).learn(X, codes) for dtype in ("float64", "float32"))
        assert np.mean(np.abs(np.exp(one) - np.exp(two))) < 1e-3


# --- how it learns


@pytest.mark.parametrize("way", ["few", "dense", "wide"])
def test_a_class_may_come_late(way: str) -> None:
    if way == "wide":
        X, codes = text(n=1500, classes=4, seed=1)
    else:
        X, codes = blobs(n=1500, d=6 if way == "few" else 500, seed=1)
    late = np.sort(np.concatenate([np.flatnonzero(codes != 3), np.flatnonzero((codes == 3) & (np.arange(1500) > 500))]))
    X, codes = X[late], codes[late]
    start = int(np.argmax(codes == 3))
    model = AutoClasses("auto", 3)
    model.learn(X[:start], codes[:start])
    assert model.add_class() == 3
    cut = len(codes) - 200
    model.learn(X[start:cut], codes[start:cut])
    known = AutoClasses("auto", 4)
    known.learn(X[:cut], codes[:cut])
    errors = [np.mean(m.predict(X[cut:]).argmax(axis=1) != codes[cut:]) for m in (model, known)]
    assert errors[0] <= errors[1] + 0.03


def test_a_stream_may_start_without_any_class() -> None:
    X, codes = blobs(n=200)
    model = AutoClasses("auto", 0)
    for x, y in zip(X, codes, strict=True):
        while model.n_classes <= y:
            model.add_class()
        p = np.exp(model.learn(x.reshape(1, -1), np.array([y])))
        assert p.sum() == pytest.approx(1.0)
    assert np.mean(model.predict(X).argmax(axis=1) == codes) > 0.75


def test_probabilities_are_calibrated() -> None:
    """Rows of a true multinomial model: of what is said to be likely at p, a share of p is."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 10)) * np.geomspace(1e-3, 1e3, 10)
    margins = (X / np.geomspace(1e-3, 1e3, 10)) @ rng.normal(size=(10, 6))
    codes = (margins + rng.gumbel(size=margins.shape)).argmax(axis=1)
    model = AutoClasses("auto", 6)
    model.learn(X[:5000], codes[:5000])
    p = model.predict_proba(X[5000:])
    sure, right = p.max(axis=1), p.argmax(axis=1) == codes[5000:]
    bins = (sure * 10).astype(int)
    gap = sum(abs(right[bins == b].mean() - sure[bins == b].mean()) * np.mean(bins == b) for b in np.unique(bins))
    assert gap < 0.03
    best = np.exp(margins[5000:])
    best /= best.sum(axis=1, keepdims=True)
    pick = np.arange(3000), codes[5000:]
    assert -np.log(p[pick]).mean() < 1.05 * -np.log(best[pick]).mean()


def test_a_class_of_great_weight_wins() -> None:
    X, codes = blobs(n=600)
    plain, heavy = AutoClasses("auto", 4), AutoClasses("auto", 4)
    plain.learn(X, codes)
    heavy.learn(X, codes, np.where(codes == 2, 50.0, 1.0))
    assert np.mean(heavy.predict(X).argmax(axis=1) == 2) > np.mean(plain.predict(X).argmax(axis=1) == 2)
    assert np.isfinite(heavy.predict(X)).all()


# --- what is refused


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_no_row_makes_it_say_anything_but_probabilities(data: Any) -> None:
    """Wild sizes and weights: a row is learned or refused, and what is refused is as if it had never come."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    model, twin = AutoClasses("auto", 3), AutoClasses("auto", 3)
    if data.draw(st.booleans()):
        for each in (model, twin):
            each._core.state = sketched(each._core.state, each._core.directions)
    for _ in range(data.draw(st.integers(1, 6))):
        n, d = int(rng.integers(1, 8)), int(rng.integers(2, 7))
        X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([0, 0, 3, -3, 60, -60, 140, -140, 149], size=(n, 1))
        X[rng.random(X.shape) < 0.3] = 0.0
        codes, weights = rng.integers(3, size=n), 10.0 ** rng.choice([0, 0, -5, 5, 100], size=n)
        while len(codes):
            try:
                out = model.learn(X, codes, weights)
            except UpdateError as error:
                before = twin._arrays()
                row = error.row
                out = twin.learn(X[:row], codes[:row], weights[:row]) if row else np.empty((0, 3))
                assert (out == error.predictions).all()  # noqa: PT017
                if not row:
                    for name, array in model._arrays().items():
                        assert (array == before[name]).all(), name
                X, codes, weights = X[row + 1 :], codes[row + 1 :], weights[row + 1 :]
            else:
                assert (twin.learn(X, codes, weights) == out).all()
                codes = codes[:0]
            np.testing.assert_allclose(np.exp(out).sum(axis=1), 1.0, atol=1e-9)
        assert (model.rounds, model.n_features) == (twin.rounds, twin.n_features)
        probe = rng.normal(size=(3, 6)) * 10.0 ** rng.choice([0, 100, -100, 149], size=(3, 1))
        p = np.exp(model.predict(probe))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)


def test_unfit_input_is_refused_and_changes_nothing() -> None:
    X, codes = blobs(n=60)
    model = AutoClasses("auto", 4, n_features=6)
    model.learn(X, codes)
    before = model.predict(X)
    for rows, labels, match in [
        (np.full((1, 6), np.nan), [0], "row 0, column 0 is nan"),
        (X[:1], [4], "class code at row 0 is 4; expected 0 to 3"),
        (X[:1], [0.5], "whole numbers"),
        (X[:2], [0], "shape"),
        (X[:1, :3], [0], "has 3 features"),
    ]:
        with pytest.raises(InputError, match=match):
            model.learn(rows, np.array(labels))
    assert (model.predict(X) == before).all()


def test_what_it_does_not_offer_says_so() -> None:
    for options, match in [
        ({"loss": "hinge"}, "softmax alone"),
        ({"ridge": 0.9}, "ridge"),
        ({"nonsense": 1}, "no option"),
    ]:
        with pytest.raises(OptionError, match=match):
            AutoClasses(n_classes=3, **options)
    with pytest.raises(OptionError, match="open_ended"):
        AutoClasses("auto", 3, open_ended=False).add_class()


@pytest.mark.parametrize("way", STREAMS)
def test_a_file_whose_numbers_do_not_fit_is_refused(way: str, tmp_path: Any) -> None:
    X, codes = STREAMS[way]()
    model = AutoClasses("auto", codes.max() + 1)
    model.learn(X, codes)
    whole = model._arrays()
    wrong = {
        "state.running": np.zeros(6),
        "state.figures": whole["state.figures"][:-1],
        "pool.mix": np.zeros(4),
        "state.energies": whole["state.energies"][:-1],
        "state.weights": whole["state.weights"][:-1],
        "state.listed": whole["state.listed"] + 100_000,
    }
    if way != "few":
        wrong["state.places"] = whole["state.places"] + 100_000
    for name, array in wrong.items():
        onsketch.files.model_file.write(tmp_path / "model", "classes", model._header(), whole | {name: array})
        with pytest.raises(ModelFileError):
            onsketch.load(tmp_path / "model")


def test_a_sketch_goes_on_when_classes_come(tmp_path: Any) -> None:
    X, codes = blobs(n=200, d=500)
    model = AutoClasses("auto", 3, sketch_size=3)
    model.learn(X[:50], codes[:50] % 3)
    assert len(model._core.state.gram) == 2 * 3
    model.add_class()
    model.learn(X[50:], codes[50:])
    assert len(model._core.state.gram) == 2 * 3
    assert np.mean(model.predict(X[50:]).argmax(axis=1) == codes[50:]) > 0.9
    model.save(tmp_path / "model")
    assert (onsketch.load(tmp_path / "model").predict(X) == model.predict(X)).all()


def test_classes_that_are_added_at_once_get_no_metrics_that_are_given_up_with_the_next_row() -> None:
    model = AutoClasses("auto", 1)
    rows = np.random.default_rng(0).normal(size=(5, 200))
    model.learn(rows, np.zeros(5, np.int64))
    before = model.predict(rows)
    for _ in range(60):
        model.add_class()
    assert not model._core.exact
    assert model.state_bytes()["total"] < 5_000_000  # 39 MB with a metric for each class
    assert (model.predict(rows)[:, :1] <= before).all()
