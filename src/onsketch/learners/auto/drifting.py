"""``onsketch.learner("auto", forget="auto")``: several rates of forgetting side by side, so that none need be chosen.

Three ``auto`` learners, which forget nothing, half of the past in 700 rows and half of it in 70 rows, learn every row.
The prediction is their average under shares that follow whoever does best *now* (fixed share: Herbster and Warmuth
1998),

    v_k = share_k·exp(−ℓ_k/u),   share_k = (1 − α)·v_k/Σv + α/3

with u = 1 for sign labels and twice the recent mean loss for real ones. All is linear, hence so are the predictions.
Cost: that of three learners.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core import losses
from onsketch.core.arrays import Arrays, named, require, take, under
from onsketch.core.errors import OptionError
from onsketch.jit.decorators import kernel
from onsketch.learners.base import Learner
from onsketch.learners.methods import Method
from onsketch.learners.options import Options
from onsketch.learners.rows import Rows

Floats = NDArray[np.float64]

RATES = (1.0, 0.999, 0.99)
"""Shares of the past that remain from one row to the next."""

SHARE = 0.0005
"""α: how much of the shares is given back to all at every row."""

RECENT = 0.02
"""How much one row counts in the recent mean loss."""


@kernel
def mix_rates(loss, real, margins, labels, weights, shares, recent, out):
    """Mix the predictions of a block (rates, rows) one row after the other, judging by each label."""
    rates = margins.shape[0]
    for i in range(out.size):
        out[i] = 0.0
        for k in range(rates):
            out[i] += shares[k] * margins[k, i]
        cost = min(losses.value(loss, out[i], labels[i]), 1e300)
        recent[0] += RECENT * (cost - recent[0]) if recent[1] > 0.0 else cost
        recent[1] = 1.0
        unit = max(2.0 * recent[0], 1e-290) if real else 1.0
        best = np.inf
        for k in range(rates):
            best = min(best, losses.value(loss, margins[k, i], labels[i]))
        total = 0.0
        for k in range(rates):
            worse = losses.value(loss, margins[k, i], labels[i]) - best
            shares[k] *= np.exp(-min(weights[i] * worse / unit, 50.0))
            total += shares[k]
        for k in range(rates):
            shares[k] = (1.0 - SHARE) * shares[k] / total + SHARE / rates


@kernel
def mix_classes(log_p, codes, weights, shares, out):
    """Mix the log-probabilities (rates, rows, K) of a block row by row; shares follow the labels' probabilities."""
    rates = log_p.shape[0]
    for i in range(codes.size):
        for k in range(out.shape[1]):
            total = 0.0
            for r in range(rates):
                total += shares[r] * np.exp(log_p[r, i, k])
            out[i, k] = np.log(max(total, 1e-300))
        y = codes[i]
        best = log_p[0, i, y]
        for r in range(1, rates):
            best = max(best, log_p[r, i, y])
        total = 0.0
        for r in range(rates):
            shares[r] *= np.exp(max(weights[i] * (log_p[r, i, y] - best), -50.0))
            total += shares[r]
        for r in range(rates):
            shares[r] = (1.0 - SHARE) * shares[r] / total + SHARE / rates


def _member(method: Method, options: Options) -> Learner:
    """Return a learner of the method that forgets at one rate."""
    from onsketch.learners.build import build_plain

    return build_plain(method, options)


class DriftingLearner(Learner):
    """The mixture of learners without tuning that forget at different rates.

    >>> import numpy as np, onsketch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 5))
    >>> y = np.sign(X[:, 0]) * np.where(np.arange(4000) < 2000, 1.0, -1.0)  # all turns around in the middle
    >>> model = onsketch.learner("auto", loss="logistic", forget="auto")
    >>> bool(np.mean(model.learn(X, y) * y <= 0) < 0.05)
    True
    """

    def __init__(self, method: Method, options: Options) -> None:
        super().__init__(method, options)
        self._members = [_member(method, replace(options, forget=rate)) for rate in RATES]
        self._shares = np.full(len(RATES), 1.0 / len(RATES))
        self._recent = np.zeros(2)

    @classmethod
    def room(cls, method: Method, options: Options) -> int:
        """Bytes that a fresh one takes."""
        return len(RATES) * type(_member(method, replace(options, forget=1.0))).room(method, options)

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return self._members[0].rounds

    share_names = tuple(f"forgets to {rate:g} a row" if rate < 1.0 else "forgets nothing" for rate in RATES)

    @property
    def shares(self) -> Floats:
        """How much each rate of forgetting counts."""
        return self._shares.copy()

    def _learn(self, rows: Rows, labels: Floats, weights: Floats, out: Floats) -> int:
        margins = np.empty((len(RATES), rows.count))
        first, *others = self._members
        done = first._learn(rows, labels, weights, margins[0])
        part = rows.part(0, done)
        for k, member in enumerate(others, 1):
            learned = member._learn(part, labels[:done], weights[:done], margins[k][:done]) if done else 0
            if learned < done:  # what it cannot learn, it takes over from the one that forgets nothing
                margins[k, learned:done] = margins[0, learned:done]
                self._members[k] = _member(self.method, member.options)
                self._members[k]._width = self._width
                self._members[k]._restore(first._arrays())
        mix_rates(self._loss.form, self._loss.labels == "real", np.ascontiguousarray(margins[:, :done]),
                  labels[:done], weights[:done], self._shares, self._recent, out[:done])  # fmt: skip
        return done

    def _predict(self, rows: Rows) -> Floats:
        return np.asarray(self._shares @ np.array([member._predict(rows) for member in self._members]))

    def _leverage(self, rows: Rows) -> Floats:
        return np.asarray(self._shares @ np.array([member._leverage(rows) for member in self._members]))

    def _coefficients(self) -> tuple[NDArray[np.int64], Floats]:
        features, first = self._members[0]._coefficients()
        values = self._shares[0] * first
        for share, member in zip(self._shares[1:], self._members[1:], strict=True):
            values = values + share * member._coefficients()[1]
        return features, values

    def state_bytes(self) -> dict[str, int]:
        """Memory of all members."""
        sizes = [member.state_bytes() for member in self._members]
        return {name: sum(size[name] for size in sizes) for name in sizes[0]}

    def _merge(self, other: Any, base: Any) -> None:
        raise OptionError("merge: learners that forget cannot be merged, for neither stream came first.")

    def _arrays(self) -> Arrays:
        arrays: Arrays = {"shares": self._shares, "recent": self._recent}
        for k, member in enumerate(self._members):
            arrays |= named(f"member{k}", member._arrays())
        return arrays

    def _restore(self, arrays: Arrays) -> None:
        self._shares = take(arrays, "shares", np.float64, (len(RATES),))
        self._recent = take(arrays, "recent", np.float64, (2,))
        require(bool((self._shares >= 0).all()) and 0.99 < self._shares.sum() < 1.01, "its shares are impossible")
        for k, member in enumerate(self._members):
            member._width = self._width
            member._restore(under(f"member{k}", arrays))
        features = [member._coefficients()[0] for member in self._members]
        same = all(np.array_equal(features[0], others) for others in features[1:])
        require(same and len({member.rounds for member in self._members}) == 1, "its members have not learned the same")
