"""The tuning-free learner written out with explicit matrices, in original and scaled coordinates of all d features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

from streams import EPSILON, REAL

RIDGES, GROWTHS, ROOT_STEP, PRECISION, TOLD = (0.03, 0.003, 0.03), (0.5, 0.05, 0.05), 10.0, 0.1, 0.25
STEPS = {0: 1.5, 2: 10.0, 3: 3.0}
K, LAPLACE = 7, 4
PRIORS = np.array([4.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0])
DEGREE = {"squared": 2, "huber": 2, "absolute": 1, "quantile": 1, "epsilon_insensitive": 1}
"""Powers of the labels' unit by which losses grow; an ε grows, too."""


def with_epsilon(loss: str) -> tuple[str, float]:
    """The name of a loss, and its ε: that of ``in_unit``, or as the tests give it."""
    name, _, level = loss.partition(" ")
    return name, float(level or EPSILON)


def in_unit(loss: str, unit: float) -> str:
    """The loss of margins and labels over this unit."""
    return f"{loss} {float(EPSILON / unit)!r}" if loss in ("huber", "epsilon_insensitive") else loss


def slope_unit(loss: str, unit: float) -> float:
    """The size of slopes at residuals of this size."""
    return {"squared": unit, "huber": min(unit, EPSILON)}.get(loss, 1.0)


def value(loss: str, z: float, y: float) -> float:
    loss, epsilon = with_epsilon(loss)
    away = abs(z - y)
    return {
        "huber": away**2 if away <= epsilon else epsilon * (2.0 * away - epsilon),
        "epsilon_insensitive": max(0.0, away - epsilon),
        "squared": (z - y) ** 2,
        "absolute": abs(z - y),
        "logistic": float(np.logaddexp(0.0, -y * z)),
        "hinge": max(0.0, 1.0 - y * z),
        "squared_hinge": max(0.0, 1.0 - y * z) ** 2,
        "quantile": max(0.8 * (y - z), 0.2 * (z - y)),
        "poisson": math.exp(min(z, 700.0)) - y * z,
    }[loss]


def slope(loss: str, z: float, y: float) -> float:
    loss, epsilon = with_epsilon(loss)
    return {
        "huber": 2.0 * min(max(z - y, -epsilon), epsilon),
        "epsilon_insensitive": float(np.sign(z - y)) * (abs(z - y) > epsilon),
        "squared": 2.0 * (z - y),
        "absolute": float(np.sign(z - y)),
        "logistic": -y / (1.0 + math.exp(min(y * z, 700.0))),
        "hinge": -y * (y * z < 1.0),
        "squared_hinge": -2.0 * y * max(0.0, 1.0 - y * z),
        "quantile": -0.8 if z < y else 0.2 if z > y else 0.0,
        "poisson": math.exp(min(z, 700.0)) - y,
    }[loss]


def implicit(loss: str, z: float, y: float, length: float) -> tuple[float, float]:
    """(slope, curvature) at z' = argmin ℓ(v) + (v − z)²/(2·length)."""
    given, (loss, epsilon) = loss, with_epsilon(loss)
    if length == 0.0 or slope(given, z, y) == 0.0:
        end, s = z, slope(given, z, y)
    elif loss in ("absolute", "hinge", "quantile", "epsilon_insensitive"):
        gap = 1.0 - y * z if loss == "hinge" else abs(z - y) - epsilon * (loss == "epsilon_insensitive")
        s = slope(given, z, y)
        s *= min(1.0, gap / (length * abs(s)))
        end = z - length * s
    else:
        ends = sorted([z, z - length * slope(given, z, y)])
        pad = 1e-6 * (1.0 + abs(z))
        end = brentq(
            lambda v: v - z + length * slope(given, v, y), ends[0] - pad, ends[1] + pad, xtol=1e-15, rtol=1e-15
        )
        s = (z - end) / length if loss != "logistic" else slope(loss, end, y)
    if loss == "logistic":
        return s, -y * s * (1.0 + y * s)
    if loss == "poisson":
        return s, math.exp(end)
    if loss == "huber":
        return s, 2.0 * min(1.0, epsilon / max(abs(end - y), 1e-300))
    return s, {"squared": 2.0, "squared_hinge": 2.0 * (y * end < 1.0)}.get(loss, s * s)


def off(used: Any, running: Any) -> Any:
    """Whether the value in use has come apart from the running one."""
    return ~((used <= 1.1 * np.asarray(running)) & (running <= 1.1 * np.asarray(used)))


def regime(now: str, variance: float) -> str:
    """How far the units of features are apart, with some inertia."""
    alike, apart = 0.65 if now == "alike" else 0.55, 2.2 if now == "apart" else 2.5
    if variance < alike**2 or (now == "alike" and variance == alike**2):
        return "alike"
    return "apart" if variance > apart**2 or (now == "apart" and variance == apart**2) else "mixed"


class Definition:
    """One row at a time; the last feature is the constant."""

    def __init__(self, d: int, loss: str, size: int, forget: float = 1.0, **constants: Any) -> None:
        self.loss, self.size, self.forget, self.d = loss, size, forget, d
        self.real, self.signs = loss in REAL, loss not in (*REAL, "poisson")
        self.told, self.free, self.patience = (
            constants.get(name, default) for name, default in (("told", TOLD), ("free", 1024), ("patience", 10))
        )
        self.clip = constants.get("clip")
        self.scale, self.mean, self.count = np.zeros(d), np.zeros(d), np.zeros(d)
        self.order: list[int] = []  # features in order of appearance, d for the constant
        self.sketched = np.zeros(d + 1, dtype=bool)
        self.common = self.norm = self.wide_norm = self.escaped = self.total = self.credit = 0.0
        self.heaviest = 1.0
        self.regime = "mixed"
        self.logs: list[float] = []
        self.own_length = self.common_length = 0.0
        self.labels: list[float] = []
        self.centre = self.mean_label = self.unit = 0.0
        self.S, self.turned = np.zeros((0, d + 1)), 0
        self.fade = 1.0
        self.w = np.zeros((K, d + 1))
        self.energy = np.zeros((4, d + 1))  # own AdaGrad, variance, AdaGrad, bold AdaGrad
        self.sums = [np.zeros(K), np.zeros(K), np.zeros(3)]
        self.shares = [PRIORS / PRIORS.sum()] * 2 + [np.full(3, 1 / 3)]
        self.factor, self.precision = np.ones(K), np.full(K, 10.0)
        self.theta, self.covariance = np.eye(1, K + 2)[0], np.eye(K + 2) / 10.0

    # what the experts see

    def seen(self, features: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """(K, d + 1): the row as each expert sees it."""
        own = np.divide(features, scale, out=np.zeros(self.d), where=scale > 0)
        common = features * math.exp(-self.common)
        first, second = common if self.regime == "alike" else own, own if self.regime == "apart" else common
        size = math.sqrt(self.norm)
        return np.array([np.append(first, size)] * 3 + [np.append(first, 1.0)] + [np.append(second, 1.0)] * 3)

    def ridge(self, k: int) -> float:
        heavier = math.sqrt(self.heaviest) if k == 0 else 1.0
        return RIDGES[k] * heavier * self.norm + GROWTHS[k] * self.escaped

    def direction(self, k: int, x: np.ndarray) -> np.ndarray:
        """A⁻¹x of the Newton experts, A^{-1/2}x of the third (by the rows that the last shrink has left)."""
        rows = self.S if k < 2 else self.S[: self.turned]
        metric = self.fade * (self.ridge(k) * np.eye(self.d + 1) + rows.T @ rows)
        if k == 2:
            values, vectors = np.linalg.eigh(self.fade * rows.T @ rows)
            return vectors @ ((vectors.T @ x) / np.sqrt(self.fade * self.ridge(k) + np.maximum(values, 0.0)))
        return np.linalg.solve(metric, x)

    # predictions

    def mix(self) -> tuple[np.ndarray, float]:
        calibrated = self.shares[1] * self.factor
        stacked = self.theta[0] * calibrated + self.theta[1:-1] * self.factor - self.theta[1:-1].sum() * calibrated
        first, second, third = self.shares[2]
        return first * self.shares[0] + second * calibrated + third * stacked, third * self.theta[-1]

    def predict(self, features: np.ndarray) -> float:
        if not self.labels:
            return 0.0
        mix, constant = self.mix()
        margins = (self.w * self.seen(features, self.scale)).sum(axis=1)
        prediction = self.centre + self.unit * constant + float(mix @ margins)
        if self.clip == "labels":
            return min(max(prediction, min(self.labels)), max(self.labels))
        return prediction if self.clip is None else min(max(prediction, -self.clip), self.clip)

    @property
    def weights(self) -> np.ndarray:
        mix, constant = self.mix()
        units = np.where(self.scale > 0, 1.0, 0.0)
        one = self.seen(units, self.scale)
        weights = mix @ (self.w * one)
        weights[-1] += self.centre + self.unit * constant
        return weights

    # learning

    def learn(self, features: np.ndarray, y: float, h: float = 1.0) -> float:
        prediction = self.predict(features)
        on, rounds, weight = features != 0, len(self.labels) + 1, h
        self.order += [j for j in [*np.flatnonzero(on), self.d] if j not in self.order]
        # scales
        self.count += on
        self.mean[on] += (np.abs(features[on]) - self.mean[on]) / self.count[on]
        self.scale = np.where(on & off(self.scale, self.mean), self.mean, self.scale)
        if rounds == 1:
            logs = np.log(np.abs(features[on]))
            self.common = logs.mean() if logs.size else 0.0
            self.regime = regime(self.regime, logs.var() if logs.size else 0.0)
        own = np.divide(features, self.scale, out=np.zeros(self.d), where=on)
        squares = float(own @ own), float(features @ features) * math.exp(-2.0 * self.common)
        first, second = self.own_or_common(*squares)
        if self.norm == 0.0:
            self.norm, self.wide_norm = first or 1.0, second or 1.0
        x = self.seen(features, self.scale)
        if self.signs:  # rows of sign labels, the constant included, are learned at one length
            x *= math.sqrt(2.0 * self.norm) / np.linalg.norm(x[0])
        z = (self.w * x).sum(axis=1)
        # labels
        if self.real:
            self.centre = y if rounds == 1 else self.centre
            target = y - self.centre
            self.mean_label += (target - self.mean_label) / rounds
            self.unit += (abs(target - self.mean_label) - self.unit) / rounds
        elif self.loss == "poisson":
            self.centre = math.log(max(y, 0.01)) if rounds == 1 else self.centre
            self.mean_label += (y - self.mean_label) / rounds
            self.unit, target, h = 1.0, y / math.exp(self.centre), h * math.exp(self.centre)
        else:
            target, self.unit = y, 1.0
        self.sketched_steps(x[0], z, target, h)
        self.diagonal_steps(x, z, target, h, np.append(on, True))
        self.heaviest *= 2.0 if weight > self.heaviest else 1.0
        self.mix_learns(z, target, h if weight <= self.heaviest else h * self.heaviest / weight, rounds, x[-1, -1])
        self.labels.append(y)
        away = self.mean_label
        if self.loss == "poisson":
            away = math.log(max(self.mean_label, 0.01)) - self.centre
        if not self.signs and abs(away) > 0.5 * self.unit:
            self.w[:, -1] -= away / np.array([math.sqrt(self.norm)] * 3 + [1.0] * 4)
            self.centre, self.mean_label = self.centre + away, self.mean_label - (away if self.real else 0.0)
        self.count_row(on, squares, rounds)
        self.fade *= self.forget
        self.energy[[0, 2, 3]] *= self.forget
        self.energy[1] /= self.forget
        if self.size < 2:
            if self.fade < 0.5:
                self.escaped, self.fade = self.escaped * self.fade, 1.0
        elif len(self.S) == 2 * self.size or self.fade < 0.5:
            self.shrink()
        return prediction

    def own_or_common(self, own: float, common: float) -> tuple[float, float]:
        return common if self.regime == "alike" else own, own if self.regime == "apart" else common

    def sketched_steps(self, x: np.ndarray, z: np.ndarray, y: float, h: float) -> None:
        newton = self.shares[1][:2] / self.shares[1][:2].sum() if self.shares[1][:2].sum() > 0 else np.full(2, 0.5)
        curvature = told = 0.0
        pace = h * self.unit if DEGREE.get(self.loss) == 1 else h
        # features without sketch columns are known to the ridge alone
        due = [j for i, j in enumerate(self.order) if i < self.free or j == self.d or self.count[j] >= self.patience]
        for k in range(3):
            direction = self.direction(k, x)
            if k < 2:
                leverage = float(x @ direction)
                s, bend = implicit(self.loss, z[k], y, pace * leverage)
                self.w[k] -= pace * s * direction
                curvature += newton[k] * h * bend
                told = max(told, leverage)
            else:
                step = ROOT_STEP / math.sqrt(self.norm)
                s, _ = implicit(self.loss, z[k], y, pace * step * float(x @ direction))
                self.w[k] -= pace * s * step * direction
        told *= curvature
        self.credit += told
        if told <= 0.0 or self.credit < self.told:
            self.sketch(due, x, None)
            return
        self.credit -= max(told, self.told)
        self.sketch(due, x, math.sqrt(curvature * max(self.told / told, 1.0) / self.fade))

    def sketch(self, due: list[int], x: np.ndarray, rho: float | None) -> None:
        """Features that come and are due have sketch columns from now on."""
        if self.size < 2:
            self.escaped += 0.0 if rho is None else rho * rho * float(x @ x)
            return
        for j in due:
            self.sketched[j] |= x[j] != 0.0
        if rho is not None:
            self.S = np.vstack([self.S, rho * np.where(self.sketched, x, 0.0)])

    def diagonal_steps(self, x: np.ndarray, z: np.ndarray, y: float, h: float, on: np.ndarray) -> None:
        prior = 1.0 / (PRECISION * self.wide_norm)
        for k in range(3, K):
            loss = "squared_hinge" if k == LAPLACE and self.signs else self.loss
            row = x[k]
            if k == LAPLACE:
                variance = np.where(self.energy[1] > 0, np.minimum(self.energy[1], prior), prior)
                length = float(variance @ row**2)
                pace = h * self.unit if DEGREE.get(loss) == 1 else h
                s, bend = implicit(loss, z[k], y, pace * length)
                self.w[k] -= pace * s * variance * row
                less = variance - h * bend / (1.0 + h * bend * length) * (variance * row) ** 2
                self.energy[1] = np.where(on, less, self.energy[1])
                continue
            at = {3: 0, 5: 2, 6: 3}[k]
            g = slope(loss, z[k], y)
            fresh = self.energy[at] == 0.0
            self.energy[at] += (h * g * g + np.where(fresh, 0.1 * slope_unit(loss, self.unit) ** 2, 0.0)) * row**2
            eta = STEPS[at] * self.unit / math.sqrt(self.norm if k == 3 else self.wide_norm)
            by = np.divide(eta, np.sqrt(self.energy[at]), out=np.zeros(self.d + 1), where=self.energy[at] > 0)
            s = g if k == 6 and self.signs else implicit(loss, z[k], y, h * float(by @ row**2))[0]
            self.w[k] -= h * s * by * row

    def mix_learns(self, z: np.ndarray, y: float, h: float, rounds: int, one: float) -> None:
        keep, loss, unit = self.forget, self.loss, self.unit
        self.sums = [keep * sums for sums in self.sums]
        self.precision = keep * self.precision + (1 - keep) * 10.0
        self.covariance = keep * self.covariance + (1 - keep) * np.eye(K + 2) / 10.0
        self.total = keep * self.total + h
        if unit == 0.0:
            return
        if rounds <= (10 if self.real else 1):
            self.factor, self.precision = np.ones(K), np.full(K, 10.0)
            self.theta, self.covariance = np.eye(1, K + 2)[0], np.eye(K + 2) / 10.0
        low, high = (min(self.labels, default=self.centre), max(self.labels, default=self.centre))
        low, high = ((low - self.centre) / unit, (high - self.centre) / unit) if self.real else (-50.0, 50.0)
        z, y = np.clip(z / unit, low, high), y / unit
        price, loss = h * unit ** DEGREE.get(loss, 0), in_unit(loss, unit)
        calibrated = self.factor * z
        b = float(self.shares[1] @ calibrated)
        f = np.concatenate([[b], calibrated - b, [one]])
        stages = [float(self.shares[0] @ z), b, float(self.theta @ f)]
        for sums, made in zip(self.sums, (z, calibrated, stages), strict=True):
            sums += [price * value(loss, v, y) for v in made]
        gain = self.covariance @ f
        s, bend = implicit(loss, stages[2], y, h * float(f @ gain))
        self.theta = self.theta - h * s * gain
        self.covariance = self.covariance - h * bend / (1 + h * bend * float(f @ gain)) * np.outer(gain, gain)
        for k in range(K):
            s, bend = implicit(loss, calibrated[k], y, h * z[k] ** 2 / self.precision[k])
            self.factor[k] -= h * s * z[k] / self.precision[k]
            self.precision[k] += h * bend * z[k] ** 2
        for i, sums in enumerate(self.sums):
            if self.real:
                power = 1.0 / DEGREE[self.loss]
                worse = power * self.total * np.log(np.maximum(sums, 1e-290) / max(sums.min(), 1e-290))
            else:
                worse = sums - sums.min()
            trust = (PRIORS if i < 2 else 1.0) * np.exp(-0.5 * worse / self.heaviest)
            self.shares[i] = trust / trust.sum()

    def count_row(self, on: np.ndarray, squares: tuple[float, float], rounds: int) -> None:
        self.logs += np.log(self.scale[on]).tolist()
        self.own_length, self.common_length = (
            (length**0.125 + (square**0.125 - length**0.125) / rounds) ** 8 if length * square else length + square
            for length, square in zip((self.own_length, self.common_length), squares, strict=True)
        )
        if self.logs and abs(np.mean(self.logs) - self.common) > 0.1:
            self.common_length *= math.exp(2.0 * (self.common - np.mean(self.logs)))
            self.common = float(np.mean(self.logs))
        self.regime = regime(self.regime, float(np.var(self.logs)) if self.logs else 0.0)
        first, second = self.own_or_common(self.own_length, self.common_length)
        self.norm = first if first > 0 and off(self.norm, first) else self.norm
        self.wide_norm = second if second > 0 and off(self.wide_norm, second) else self.wide_norm

    def shrink(self) -> None:
        """Robust frequent directions; what forgetting has left is written into the rows, and the ridge starts anew."""
        _, singular, v = np.linalg.svd(self.S, full_matrices=False)
        energy = np.zeros(max(self.size, singular.size))
        energy[: singular.size] = np.where(singular**2 > 1e-12 * singular.max(initial=0.0) ** 2, singular**2, 0.0)
        rho = energy[self.size - 1]
        kept = np.maximum(energy[: self.size - 1] - rho, 0.0)[: len(v)]
        self.S = np.zeros((self.size - 1, self.d + 1))
        self.S[: kept.size] = np.sqrt(self.fade * kept)[:, None] * v[: kept.size]
        self.turned = self.size - 1
        self.escaped = self.fade * (self.escaped + rho)
        self.fade = 1.0
