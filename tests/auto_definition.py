"""The tuning-free learner written out with explicit matrices, in original and scaled coordinates of all d features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq

RIDGES, STEPS, RATE, LEAP, NEGLIGIBLE, LEAST_FADE = (0.03, 0.003), (1.0, 3.0), 0.5, 1.1, 1e-6, 0.5


def value(loss: str, z: float, y: float) -> float:
    return {
        "squared": (z - y) ** 2,
        "absolute": abs(z - y),
        "logistic": float(np.logaddexp(0.0, -y * z)),
        "hinge": max(0.0, 1.0 - y * z),
        "squared_hinge": max(0.0, 1.0 - y * z) ** 2,
    }[loss]


def slope(loss: str, z: float, y: float) -> float:
    return {
        "squared": 2.0 * (z - y),
        "absolute": float(np.sign(z - y)),
        "logistic": -y / (1.0 + math.exp(min(y * z, 700.0))),
        "hinge": -y * (y * z < 1.0),
        "squared_hinge": -2.0 * y * max(0.0, 1.0 - y * z),
    }[loss]


def implicit(loss: str, z: float, y: float, length: float) -> tuple[float, float]:
    """(slope, curvature) at z' = argmin ℓ(v) + (v − z)²/(2·length)."""
    if length == 0.0 or slope(loss, z, y) == 0.0:
        end, s = z, slope(loss, z, y)
    elif loss in ("absolute", "hinge"):
        gap = abs(z - y) if loss == "absolute" else 1.0 - y * z
        s = slope(loss, z, y) * min(1.0, gap / length)
        end = z - length * s
    else:
        ends = sorted([z, z - length * slope(loss, z, y)])
        pad = 1e-6 * (1.0 + abs(z))
        end = brentq(lambda v: v - z + length * slope(loss, v, y), ends[0] - pad, ends[1] + pad, xtol=1e-15, rtol=1e-15)
        s = (z - end) / length if loss != "logistic" else slope(loss, end, y)
    if loss == "logistic":
        return s, -y * s * (1.0 + y * s)
    return s, {"squared": 2.0, "squared_hinge": 2.0 * (y * end < 1.0)}.get(loss, s * s)


class Definition:
    """One row at a time; the last feature is the constant."""

    def __init__(self, d: int, loss: str, size: int, forget: float = 1.0, clip: Any = "default") -> None:
        self.loss, self.size, self.forget, self.d = loss, size, forget, d
        self.real = loss in ("squared", "absolute")
        self.clip = clip
        self.scale, self.mean, self.count = np.zeros(d + 1), np.zeros(d), np.zeros(d)
        self.norm = self.length = self.label = self.escaped = self.total = 0.0
        self.labels: list[float] = []
        self.rounds = 0
        self.S = np.zeros((0, d + 1))
        self.fade = 1.0
        self.w = np.zeros((4, d + 1))
        self.energy = np.zeros((2, d + 1))
        self.sums, self.shares = np.zeros(4), np.full(4, 0.25)

    def metric(self, k: int) -> np.ndarray:
        """A_k, including what forgetting has left of it."""
        ridge = RIDGES[k] * self.norm + 0.5 * self.escaped
        return self.fade * (ridge * np.eye(self.d + 1) + self.S.T @ self.S)

    def bounds(self) -> tuple[float, float]:
        if self.real and self.clip == "default":
            return (min(self.labels), max(self.labels)) if self.labels else (0.0, 0.0)
        bound = self.clip if isinstance(self.clip, float) else math.inf
        return -bound, bound

    def margins(self, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return self.w @ np.divide(x, scale, out=np.zeros_like(x), where=scale > 0)

    def predict(self, features: np.ndarray) -> float:
        x = np.append(features, 1.0)
        low, high = self.bounds()
        return float(np.clip(self.shares @ np.clip(self.margins(x, self.scale), low, high), low, high))

    @property
    def weights(self) -> np.ndarray:
        return self.shares @ np.divide(self.w, self.scale, out=np.zeros_like(self.w), where=self.scale > 0)

    def learn(self, features: np.ndarray, y: float, c: float = 1.0) -> float:
        prediction = self.predict(features)
        loss, seen = self.loss, np.append(features != 0, True)
        self.rounds += 1
        # scales: the mean magnitude of each feature, followed when a factor LEAP off
        on = features != 0
        self.count += on
        self.mean[on] += (np.abs(features[on]) - self.mean[on]) / self.count[on]
        used, mean = self.scale[:-1], self.mean
        off = on & ~((used <= LEAP * mean) & (mean <= LEAP * used))
        used[off] = mean[off]
        scaled = np.divide(features, used, out=np.zeros(self.d), where=on)
        square = float(scaled @ scaled)
        if self.norm == 0.0:
            self.norm = square if square > 0 else 1.0
        self.scale[-1] = 1.0 / math.sqrt(self.norm)
        x = np.append(scaled, math.sqrt(self.norm))
        z = self.w @ x
        low, high = self.bounds()
        # Newton experts
        share = self.shares[:2] / self.shares[:2].sum() if self.shares[:2].sum() > 0 else np.full(2, 0.5)
        curvature = told = 0.0
        self.label += (abs(y) - self.label) / self.rounds
        pace = c * self.label if loss == "absolute" else c
        for k in range(2):
            direction = np.linalg.solve(self.metric(k), x)
            s, bend = implicit(loss, z[k], y, pace * float(x @ direction))
            self.w[k] -= pace * s * direction
            curvature += share[k] * c * bend
            told = max(told, float(x @ direction))
        # AdaGrad experts
        for k in range(2):
            eta = STEPS[k] * (self.label if self.real else 1.0) / math.sqrt(self.norm)
            g = c * slope(loss, z[2 + k], y)
            self.energy[k] += (g * x) ** 2
            if g != 0.0:
                inverse = np.divide(eta, np.sqrt(self.energy[k]), out=np.zeros(self.d + 1), where=seen)
                s, _ = implicit(loss, z[2 + k], y, c * float(inverse @ x**2))
                self.w[2 + k] -= c * s * inverse * x
        if curvature * told > NEGLIGIBLE:
            self.S = np.vstack([self.S, math.sqrt(curvature / self.fade) * x])
        # the mixture
        self.sums = self.forget * self.sums + [c * value(loss, float(np.clip(v, low, high)), y) for v in z]
        self.total = self.forget * self.total + c
        if self.real:
            power = 0.5 if loss == "squared" else 1.0
            worse = power * self.total * np.log(np.maximum(self.sums, 1e-290) / max(self.sums.min(), 1e-290))
        else:
            worse = self.sums - self.sums.min()
        self.shares = np.exp(-RATE * worse) / np.exp(-RATE * worse).sum()
        self.labels.append(y)
        self.length += (square - self.length) / self.rounds
        if self.length > 0 and not (self.norm <= LEAP * self.length and self.length <= LEAP * self.norm):
            self.norm = self.length
        self.fade *= self.forget
        self.energy *= self.forget
        if len(self.S) == 2 * self.size or self.fade < LEAST_FADE:
            self.shrink()
        return prediction

    def shrink(self) -> None:
        """Robust frequent directions; what forgetting has left is written into the rows, and the ridge starts anew."""
        _, singular, v = np.linalg.svd(self.S, full_matrices=False)
        energy = np.zeros(max(self.size, singular.size))
        energy[: singular.size] = np.where(singular**2 > 1e-12 * singular[0] ** 2, singular**2, 0.0)
        rho = energy[self.size - 1]
        kept = np.maximum(energy[: self.size - 1] - rho, 0.0)[: len(v)]
        self.S = np.zeros((self.size - 1, self.d + 1))
        self.S[: kept.size] = np.sqrt(self.fade * kept)[:, None] * v[: kept.size]
        self.escaped = self.fade * (self.escaped + rho)
        self.fade = 1.0
