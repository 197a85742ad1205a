"""The engines of the races: our learners, Vowpal Wabbit, scikit-learn and River, on the same rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measure import Engine, cpu_seconds


def ours(method: str, x: Any, y: np.ndarray, name: str = "", dtype: str = "float64", **options: Any) -> Engine:
    """One pass of a *fresh* learner over all rows, so that allocating its state is part of the figure.

    Rows are float64 for any dtype of the state. A first learner sees a few rows, so that the kernels are
    compiled before the timing starts.
    """

    def prepare() -> Callable[[], float]:
        import onsketch

        def fresh() -> Any:
            return onsketch.learner(method, loss="squared", ridge=1.0, dtype=dtype, **options)

        fresh().learn(x[:100], y[:100])
        return lambda: cpu_seconds(partial(fresh().learn, x, y))

    return Engine(name or method, dtype, x.shape[0], prepare)


def vowpal(name: str, options: str, x: Any, y: np.ndarray, entries: int = 2_000_000) -> Engine:
    """Learning alone in Vowpal Wabbit: ``learn`` on parsed examples, less the same under --noop.

    There are two ways to time VW without its parser. A pass over a binary cache less a --noop pass over the
    same cache subtracts two figures that are both dominated by reading the cache, which VW does in a second
    thread: the difference scatters by more than the default learner costs (it even came out negative), and
    --OjaNewton came out two to three times as slow as below. Calling the Python package's C++ ``learn`` on
    examples parsed off the clock has a small constant cost per call, which --noop measures well. So the
    second way is used, being the steadier one and the more favourable to VW: examples are parsed a few
    hundred at a time, so that they are still in the cache when they are learned, and neither the parsing nor
    the finishing of an example is timed. The constant feature is off. Each pass is the first one of a fresh
    workspace, as with our learners: on a second pass over the same examples VW skips the updates of those
    that it fits exactly by then.
    """
    chunk = 500
    rows = min(x.shape[0], entries * x.shape[0] // x.nnz)

    def prepare() -> Callable[[], float]:
        from vowpalwabbit import Workspace, pyvw

        bits = max(18, int(x.indices.max()).bit_length())
        lines = list(_vw_lines(x[:rows], y))

        def one_pass() -> float:
            space = Workspace(f"{options} --loss_function squared --noconstant -b {bits} --quiet")
            learn = partial(pyvw.pylibvw.vw.learn, space)
            seconds = 0.0
            for start in range(0, rows, chunk):
                examples = [space.parse(line) for line in lines[start : start + chunk]]
                seconds += cpu_seconds(partial(deque, map(learn, examples), 0))
                for example in examples:
                    space.finish_example(example)
            space.finish()
            return seconds

        return one_pass

    return Engine(name, "float32", rows, prepare, None if "--noop" in options else "VW --noop")


def _vw_lines(x: Any, y: np.ndarray) -> Any:
    for i in range(x.shape[0]):
        entries = slice(x.indptr[i], x.indptr[i + 1])
        pairs = zip(x.indices[entries].tolist(), x.data[entries].tolist(), strict=True)
        yield f"{y[i]:g} | " + " ".join(map("%d:%.6g".__mod__, pairs))


def sgd_classifier(x: Any, y: np.ndarray) -> Engine:
    """scikit-learn's SGDClassifier, plain SGD on the squared loss: all rows in one ``partial_fit``."""

    def prepare() -> Callable[[], float]:
        from sklearn.linear_model import SGDClassifier

        def one_pass() -> None:
            model = SGDClassifier(
                loss="squared_error", penalty=None, learning_rate="constant", eta0=0.01, shuffle=False
            )
            model.partial_fit(x, y, classes=[-1.0, 1.0])

        return lambda: cpu_seconds(one_pass)

    return Engine("scikit-learn SGD", "float64", x.shape[0], prepare)


def river(x: Any, y: np.ndarray, rows: int = 3000) -> Engine:
    """River's LogisticRegression, ``predict_one`` then ``learn_one`` as its users do, on rows that are dicts already.

    Our ``learn`` and Vowpal Wabbit's return the prediction made before each update, too.
    """
    rows = min(rows, x.shape[0])

    def prepare() -> Callable[[], float]:
        from river.linear_model import LogisticRegression

        spans = [slice(x.indptr[i], x.indptr[i + 1]) for i in range(rows)]
        dicts = [dict(zip(x.indices[s].tolist(), x.data[s].tolist(), strict=True)) for s in spans]
        labels = (y[:rows] > 0).tolist()

        def one_pass() -> None:
            model = LogisticRegression()
            for features, label in zip(dicts, labels, strict=True):
                model.predict_one(features)
                model.learn_one(features, label)

        return lambda: cpu_seconds(one_pass)

    return Engine("River", "float64", rows, prepare)
