"""From one way of learning to the next, with what has been learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.tolerances import CUTOFF
from onsketch.learners.multiclass.softmax.metrics import RIDGES
from onsketch.learners.multiclass.softmax.pairs import EXPERTS, SMALLEST, Wide, level_of
from onsketch.learners.multiclass.softmax.scaling import TINY, UNIT_CONSTANT
from onsketch.learners.multiclass.softmax.state import (
    AVERAGE,
    FIGURE,
    NEWTON,
    OUTPUTS,
    RUNNING,
    SCALED,
    TALLY,
    Common,
    Dense,
)

Floats = NDArray[np.float64]


def sketched(common: Common, table: Dense, size: int) -> Dense:
    """One sketch for all classes from a metric for each.

    The sum of the classes' curvatures is (K − 1) times the one that they share, p(1 − p) having the sum 1 − Σp².
    """
    classes, features = int(common.tally[TALLY.classes]), int(common.tally[TALLY.seen]) + 1
    norm = float(common.running[RUNNING.norm]) or 1.0
    new = Dense.empty(len(table.energies), table.classes, 2 * size, table.weights.dtype)
    total = np.zeros((features, features))
    for e in range(NEWTON):
        for k in range(classes):
            inverse = table.metrics[e, k, :features, :features].copy()
            unmet = np.flatnonzero(np.diag(inverse) == 0.0)
            inverse[unmet, unmet] = 1.0 / (RIDGES[e] * norm)
            added = np.linalg.inv(inverse) - RIDGES[e] * norm * np.eye(features)
            new.alphas[k] += max(float(np.trace(added)), 0.0) / (2.0 * norm) / NEWTON
            total += added / (NEWTON * max(classes - 1, 1))
    values, vectors = np.linalg.eigh((total + total.T) / 2.0)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    rho = float(values[size - 1]) if len(values) >= size else 0.0
    kept = int(np.count_nonzero(values[: size - 1] > rho + CUTOFF * values[0]))
    energies = values[:kept] - rho
    new.sketch[:features, :kept] = vectors[:, :kept] * np.sqrt(energies)
    new.gram[np.arange(kept), np.arange(kept)] = energies
    common.tally[TALLY.sketched] = kept
    common.running[RUNNING.escaped] = rho
    common.running[RUNNING.used] = 0.0  # so that the inverses are made before the next row
    common.running[RUNNING.alpha] = new.alphas.sum()
    return new._replace(weights=table.weights, energies=table.energies)


def widened(common: Common, table: Dense) -> Wide:
    """Lists of pairs from weights of every class; the sketch must have been folded into them."""
    rows, features, classes = (int(n) for n in common.tally[[TALLY.rounds, TALLY.seen, TALLY.classes]])
    figures, numbers = common.figures[:features], common.running
    n = figures[:, FIGURE.values]
    counted = np.maximum(n, 1.0)
    squares = figures[:, FIGURE.squares] / counted + figures[:, FIGURE.mean] ** 2
    logs = 0.5 * np.log(np.where(squares > 0.0, squares, 1.0))
    numbers[RUNNING.log_count] = n.sum()
    numbers[RUNNING.log_scale] = float(n @ logs) / max(float(n.sum()), 1.0)
    scale = np.exp(np.clip(numbers[RUNNING.log_scale], -345.0, 345.0))
    norm, numbers[RUNNING.norm] = float(numbers[RUNNING.norm]), float(n @ squares) / max(rows, 1) / scale / scale
    new = Wide.empty(len(table.energies), SMALLEST, table.weights.dtype)
    weights = table.weights.reshape(-1, OUTPUTS, table.classes)[: features + 1, :, :classes].astype(np.float64)
    averages = weights[:, SCALED] - weights[:, AVERAGE + SCALED] / max(float(numbers[RUNNING.omega]), 1e-300)
    share = n / max(rows, 1)
    variance = figures[:, FIGURE.squares] / counted + figures[:, FIGURE.mean] ** 2 * (1.0 - share)
    fit = variance > TINY * figures[:, FIGURE.mean] ** 2
    width = np.where(fit, np.sqrt(np.where(fit, variance, 1.0)), np.inf)
    raw = averages[1:] / width[:, None]
    constant = averages[0] * np.sqrt(norm) - (np.where(share > 0.5, share * figures[:, FIGURE.mean], 0.0) @ raw)
    pairs = np.zeros((features + 1, classes, EXPERTS))
    root = np.sqrt(numbers[RUNNING.norm]) or 1.0
    pairs[1:, :, 3] = raw * scale
    pairs[1:, :, 0] = pairs[1:, :, 2] = raw * (scale * root)
    pairs[0, :, 3] = constant / root
    pairs[0, :, 0] = pairs[0, :, 2] = constant / UNIT_CONSTANT
    new.energies[: features + 1, :2] = table.energies[: features + 1, 1:]
    new.energies[1 : features + 1, 2] = table.energies[1 : features + 1, 0] * np.where(fit, width / scale, 1.0) ** 2
    new.energies[0, 2] = table.energies[0, 0] * numbers[RUNNING.norm] / max(norm, 1e-300)
    met: NDArray[np.bool_] = np.abs(pairs).sum(axis=2) > 0.0
    listed = [np.flatnonzero(row).astype(np.int32) for row in met]
    return filled(new, [len(row) for row in listed], np.concatenate(listed), pairs[met])


def filled(table: Wide, lengths: Any, classes: NDArray[np.int32], weights: Any) -> Wide:
    """Empty tables with these lists, one after the other, for the first features."""
    counts = np.asarray(lengths, np.int64)
    sizes = {length: SMALLEST << level_of.py_func(length) if length else 0 for length in np.unique(counts).tolist()}
    rooms = np.array([sizes[length] for length in counts.tolist()], np.int64)
    table = table.with_pairs(max(int(rooms.sum()), SMALLEST))
    starts = np.cumsum(rooms) - rooms
    place = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    table.classes[place], table.weights[place] = classes, weights
    table.starts[: len(counts)], table.rooms[: len(counts)], table.lengths[: len(counts)] = starts, rooms, counts
    table.tail[0] = rooms.sum()
    return table
