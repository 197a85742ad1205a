"""Streaming PCA and anomalies: sensors that stop agreeing.

Sixty sensors follow five hidden causes. `SketchedPCA` finds the directions of the causes from blocks of rows, in memory
for a few rows. A learner with a metric knows which directions its rows had: the *leverage* of a row is large where few
rows were. In two per cent of the test rows one sensor has failed and reports another row's value. No single reading is
out of range, so that a limit for each sensor would not find them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

import onsketch
from onsketch.sklearn import SketchedPCA

rng = np.random.default_rng(0)
causes = rng.normal(size=(5, 60))


def readings(n):
    return rng.normal(size=(n, 5)) @ causes + 0.1 * rng.normal(size=(n, 60))


history, today = readings(5_000), readings(2_000)

# PCA of a stream: twenty blocks, one after the other.
pca = SketchedPCA(5)
for block in np.array_split(history, 20):
    pca.partial_fit(block)
exact = PCA(5).fit(history)
captured, best = pca.explained_variance_ratio_.sum(), exact.explained_variance_ratio_.sum()
print(f"variance captured: {captured:.4f}, by PCA of all rows {best:.4f}")

# A failed sensor repeats what it said in another row.
failed = rng.random(2_000) < 0.02
sensor = rng.integers(60, size=2_000)
today[failed, sensor[failed]] = np.roll(today, 7, axis=0)[failed, sensor[failed]]

# Leverage x'A⁻¹x in the metric of all rows seen; the label does not matter for the metric of least squares.
learner = onsketch.learner("ons", loss="squared", summary="curvature", clip=None)
learner.learn(history, np.ones(len(history)))
leverage = learner.leverage(today)
largest = np.abs((today - history.mean(axis=0)) / history.std(axis=0)).max(axis=1)
print(f"area under the curve, leverage: {roc_auc_score(failed, leverage):.3f}")
print(f"area under the curve, largest reading of the row: {roc_auc_score(failed, largest):.3f}")

figure, axes = plt.subplots(figsize=(6, 4))
axes.semilogy(np.flatnonzero(~failed), leverage[~failed], ".", markersize=2, label="working", rasterized=True)
axes.semilogy(np.flatnonzero(failed), leverage[failed], "x", label="a sensor has failed")
axes.set(xlabel="row", ylabel="leverage", title="Leverage of today's rows")
axes.legend()
figure.savefig("pca_anomalies.svg", bbox_inches="tight")
