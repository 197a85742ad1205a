"""Many classes in one pass: the multinomial auto against offline multinomial logistic regression and tuned SGD.

``python benchmarks/classes.py FOLDER [set …]`` reads the raw sets from a folder. Each set is shuffled, cut to 20,000
rows (``FEWER``: to 10,000, because offline fits are slow), and the last fifth is for testing. Offline: standardised
features, the best of four C **on the test rows**, which favours it. SGD: one pass on standardised (text: unit) rows,
the best of four steps on the test rows. A line at the end of each set has the means over its shuffles.

Three of the nine sets (``JUDGED``) are for judging only: no choice was based on them. The first constants,
however, come from a prototype tuned on all sets except the stream of topics.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import study_sets
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import MaxAbsScaler, StandardScaler, normalize

from onsketch.learners.auto.classes import AutoClasses

ROWS = 20_000
FEWER = {"mnist": 10_000, "fashion": 10_000, "news20": 10_000}
JUDGED = ("usps", "covtype", "fashion")
SHUFFLES = {"topics": 1, "covtype": 1, "mnist": 1, "fashion": 1, "news20": 1, "dna": 5, "isolet": 5}


def letter(folder: Path) -> tuple[Any, Any]:
    """The labels of the letter set are words in the first column, which ``study_sets`` counts as features."""
    X, y = study_sets._libsvm(folder / "letter.scale.xz")
    return X.toarray(), y


def topics(seed: int = 0, n: int = 25_000, classes: int = 100, words: int = 50_000) -> tuple[Any, Any]:
    """Return rows of 60 Zipf-distributed words; every topic favours its own words."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, words + 1)
    codes = rng.integers(classes, size=n)
    drawn = np.empty((n, 60), dtype=np.int64)
    for k in range(classes):
        favour = popularity * np.exp(1.2 * rng.normal(size=words))
        rows = np.flatnonzero(codes == k)
        drawn[rows] = rng.choice(words, p=favour / favour.sum(), size=(len(rows), 60))
    owner = np.repeat(np.arange(n), 60)
    X = csr_array((np.ones(60 * n), (owner, drawn.ravel())), shape=(n, words))
    X.sum_duplicates()
    return X, codes


SETS: dict[str, Any] = {
    "letter": letter,
    "usps": lambda folder: study_sets._npz(folder / "usps.npz.xz"),
    "covtype": lambda folder: study_sets._csv(folder / "covtype.csv.xz", -1),
    "mnist": lambda folder: study_sets._images(folder, "mnist-train"),
    "news20": lambda folder: study_sets._libsvm(folder / "news20.xz"),
    "topics": lambda folder: topics(),
    "dna": lambda folder: study_sets._csv(folder / "mlbench_DNA.csv.xz", -1),
    "isolet": lambda folder: study_sets._libsvm(folder / "isolet.xz"),
    "fashion": lambda folder: study_sets._images(folder, "fashion-train"),
}


def calibration_error(p: Any, y: Any) -> float:
    """How far the likeliest class's probability is from how often it is right, over 15 bins."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((sure * 15).astype(int), 14)
    return float(sum(abs(right[b == bins].mean() - sure[b == bins].mean()) * np.mean(b == bins) for b in set(bins)))


def report(name: str, p: Any, y: Any, seconds: float, note: str = "") -> tuple[float, float]:
    """One line; returns error and calibration error."""
    loss = -np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)).mean()
    error = np.mean(p.argmax(axis=1) != y)
    off = calibration_error(p, y)
    print(f"  {name:12} error {error:.4f} loss {loss:.3f} ece {off:.3f} {seconds:7.2f} s {note}", flush=True)
    return float(error), off


def run(name: str, folder: Path, seed: int, offline: bool) -> dict[str, tuple[float, float]]:
    """One shuffle of one set: error and calibration error of each."""
    X, y = SETS[name](folder)
    y = np.unique(y, return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(len(y))[: FEWER.get(name, ROWS)]
    X, y, cut = X[order], y[order], int(0.8 * len(order))
    print(f"{name}, seed {seed}: {cut} rows, {X.shape[1]} features, {y.max() + 1} classes", flush=True)
    warm = AutoClasses("auto", y.max() + 1)
    warm.learn(X[: min(cut, 300)], y[: min(cut, 300)])  # compiled by now
    start = time.process_time()
    model = AutoClasses("auto", y.max() + 1)
    model.learn(X[:cut], y[:cut])
    seconds = time.process_time() - start
    note = f"{model.way}, {model.state_bytes()['total'] / 1e6:.0f} MB"
    found = {"auto": report("auto", model.predict_proba(X[cut:]), y[cut:], seconds, note)}
    text = X.shape[1] > 2000 and hasattr(X, "tocsr")
    scaler = MaxAbsScaler() if hasattr(X, "tocsr") else StandardScaler()
    Z = normalize(X) if text else scaler.fit(X[:cut]).transform(X)
    if hasattr(Z, "indptr"):  # scikit-learn takes no others
        Z.indices, Z.indptr = Z.indices.astype(np.int32), Z.indptr.astype(np.int32)
    peers = [("SGD", SGDClassifier(loss="log_loss", alpha=a, max_iter=1, tol=None)) for a in (1e-6, 1e-5, 1e-4, 1e-3)]
    if offline:
        peers += [("offline", LogisticRegression(C=c, max_iter=200)) for c in (0.1, 1.0, 10.0, 100.0)]
    best: dict[str, Any] = {}
    for kind, peer in peers:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer.fit(Z[:cut], y[:cut])
        p, took = peer.predict_proba(Z[cut:]), time.process_time() - start
        error = np.mean(p.argmax(axis=1) != y[cut:])
        if kind not in best or error < best[kind][0]:
            best[kind] = error, p, took
    for kind, (_, p, took) in best.items():
        found[kind] = report(kind, p, y[cut:], took)
    return found


if __name__ == "__main__":
    place, chosen = Path(sys.argv[1]), sys.argv[2:] or list(SETS)
    for each in chosen:
        runs = [run(each, place, shuffle, offline=each != "topics") for shuffle in range(SHUFFLES.get(each, 2))]
        means = {kind: np.mean([one[kind] for one in runs], axis=0) for kind in runs[0]}
        told = ", ".join(f"{kind} {error:.4f} (ece {off:.3f})" for kind, (error, off) in means.items())
        ratio = f", of offline {means['auto'][0] / means['offline'][0]:.3f}" if "offline" in means else ""
        print(f"{each}{' (judged)' if each in JUDGED else ''}, mean of {len(runs)}: {told}{ratio}", flush=True)
