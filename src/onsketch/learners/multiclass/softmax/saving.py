"""The state of the softmax learner as arrays, and back: only what is in use, so that room to grow takes no space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays, named, require, require_within, take
from onsketch.core.tolerances import LARGEST
from onsketch.learners.auto.pool import COOLEST, HOTTEST, PARTS, Pool
from onsketch.learners.multiclass.softmax.changes import filled
from onsketch.learners.multiclass.softmax.directions import AT_MOST
from onsketch.learners.multiclass.softmax.pairs import EXPERTS, Wide
from onsketch.learners.multiclass.softmax.state import OUTPUTS, TALLY, Common, Dense


def arrays_of(features: NDArray[np.int64], common: Common, pool: Pool, table: Dense | Wide) -> Arrays:
    """Everything of the state."""
    seen, classes = int(common.tally[TALLY.seen]), int(common.tally[TALLY.classes])
    whole = {"features": features[:seen], "counts": common.tally, "numbers": common.running}
    whole["figures"] = common.figures[:seen]
    kept = pool._replace(biases=pool.biases[:classes], firmness=pool.firmness[:classes])
    whole |= named("pool", kept._asdict())
    if isinstance(table, Dense):
        return whole | named("table", table.resized(seen + 1, classes)._asdict())
    lengths = table.lengths[: seen + 1].astype(np.int64)
    place = np.repeat(table.starts[: seen + 1] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    pairs = {"lengths": lengths, "classes": table.classes[place], "weights": table.weights[place]}
    return whole | named("table", {**pairs, "energies": table.energies[: seen + 1]})


def restored_state(
    arrays: Arrays, way: str, classes: int, size: int, dtype: Any
) -> tuple[NDArray[np.int64], Common, Pool, Dense | Wide]:
    """The state from a model file, or a ModelFileError."""
    require(way in ("few", "dense", "wide"), f"it learns in a way ({way}) that this version does not know")
    features = take(arrays, "features", np.int64, (None,))
    seen = len(features)
    counts, numbers = take(arrays, "counts", np.int64, (6,)), take(arrays, "numbers", np.float64, (7,))
    common = Common(counts, numbers, take(arrays, "figures", np.float64, (seen, 3)))
    require(
        bool((counts >= 0).all()) and counts[TALLY.seen] == seen and counts[TALLY.classes] == classes,
        "its counts are impossible",
    )
    require(bool((common.figures[:, 0] > 0).all()), "a feature seen has no values")
    room = max(classes, 1)
    outputs = EXPERTS if way == "wide" else OUTPUTS
    pool = Pool.empty(outputs, classes)
    pool = Pool(**_like(pool, arrays, "pool"))
    _check_pool(pool)
    spare = Pool.empty(outputs, room)
    spare.biases[:classes], spare.firmness[:classes] = pool.biases, pool.firmness
    pool = pool._replace(biases=spare.biases, firmness=spare.firmness)
    if way == "wide":
        return features, common, pool, _wide(arrays, seen + 1, classes, dtype)
    most = 2 * AT_MOST * max(size, 2) if way == "dense" else 0
    return features, common, pool, _dense(arrays, common, seen + 1, classes, most, dtype)


def _check_pool(pool: Pool) -> None:
    """Refuse a pool that no rows lead to: what it says would not be probabilities."""
    require(pool.mix.shape == (PARTS,) and bool((pool.mix > 0).all()), "its pool is impossible", "pool.mix")
    require_within(pool.mix, 0.0, 1.001, "pool.mix")
    require_within(pool.shares, 0.0, 1.001, "pool.shares")
    require_within(pool.temperatures, COOLEST, HOTTEST, "pool.temperatures")
    require_within(pool.stack, -HOTTEST, HOTTEST, "pool.stack")
    for name in ("hardness", "firmness"):
        require_within(getattr(pool, name), 1e-6, LARGEST, f"pool.{name}")
    require_within(pool.losses, -LARGEST, LARGEST, "pool.losses")
    require_within(pool.biases, -LARGEST, LARGEST, "pool.biases")
    require_within(pool.hessian, -LARGEST, LARGEST, "pool.hessian")
    require_within(pool.gaps[0], 0.0, LARGEST, "pool.gaps")
    require(bool((np.abs(pool.gaps[1]) <= 1.001 * pool.gaps[0]).all()), "its pool is impossible", "pool.gaps")
    curved = np.linalg.eigvalsh(pool.hessian)
    require(bool(curved.min() >= -1e-3 * max(1.0, curved.max())), "its pool bends the wrong way", "pool.hessian")


def _like(fresh: Any, arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays of this prefix, of the names, types and shapes of a fresh tuple of arrays."""
    found = {}
    for name, array in fresh._asdict().items():
        found[name] = take(arrays, f"{prefix}.{name}", array.dtype, (None,) * array.ndim)
        shape = found[name].shape
        require(shape == array.shape, f"{prefix}.{name} has shape {shape} and should have {array.shape}")
    return found


def _dense(arrays: Arrays, common: Common, features: int, classes: int, most: int, dtype: Any) -> Dense:
    capacity = len(take(arrays, "table.gram", np.float64, (None, None)))
    require(most // AT_MOST <= capacity <= most and capacity % 2 == 0, "its sketch has an impossible size")
    table = Dense(**_like(Dense.empty(features, classes, capacity, dtype), arrays, "table"))
    require(common.tally[TALLY.sketched] < max(capacity, 1), "its sketch has impossible counts")
    return table.resized(features, max(classes, 1))


def _wide(arrays: Arrays, features: int, classes: int, dtype: Any) -> Wide:
    lengths = take(arrays, "table.lengths", np.int64, (features,))
    require(bool(((lengths >= 0) & (lengths <= classes)).all()), "a feature has met more classes than there are")
    total = int(lengths.sum())
    met = take(arrays, "table.classes", np.int32, (None,))
    weights = take(arrays, "table.weights", dtype, (None, EXPERTS))
    require(len(met) == len(weights) == total, "its pairs do not fit its lists")
    require(bool(((met >= 0) & (met < classes)).all()), "a pair has a class that is not there")
    owner = np.repeat(np.arange(features), lengths)
    require(len(np.unique(owner * max(classes, 1) + met)) == total, "a feature has a class twice")
    fresh = Wide.empty(features, 4, dtype)._replace(energies=take(arrays, "table.energies", np.float64, (features, 3)))
    return filled(fresh, lengths, met, weights)
