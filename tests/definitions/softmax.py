"""The multinomial auto by its definition: dense NumPy, figures from all rows so far, explicit metrics, no lists.

``Definition(classes, width, way).learn(x, y, h)`` learns one row and returns its log-probabilities before.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def softmax(z: Any) -> Any:
    e = np.exp(z - z.max())
    return e / e.sum()


def implicit(z: Any, y: int, tau: Any, h: float) -> Any:
    """p' − e_y at the minimiser of −h·log p_y(v) + Σ(v − z)²/(2τ), by Newton's method with halving in all classes."""
    label = np.eye(len(z))[y]
    free = tau > 0.0
    v = z.astype(float).copy()

    def value(v: Any) -> float:
        distance = (v - z)[free] ** 2 / (2.0 * tau[free])
        return float(h * (np.log(np.exp(v - v.max()).sum()) + v.max() - v[y]) + distance.sum())

    for _ in range(200):
        p = softmax(v)
        gradient = h * (p - label)[free] + (v - z)[free] / tau[free]
        hessian = h * (np.diag(p) - np.outer(p, p))[np.ix_(free, free)] + np.diag(1.0 / tau[free])
        step = np.zeros(len(z))
        step[free] = np.linalg.solve(hessian, gradient)
        if np.abs(step).max() < 1e-10 * (1.0 + np.abs(v).max()):
            break
        size = 1.0
        while value(v - size * step) > value(v) + 1e-12 and size > 1e-3:
            size /= 2.0
        v = v - size * step
    return softmax(v) - label


class Pool:
    """Temperatures, mixture, stack, linear pool and the map of the likeliest class's probability."""

    def __init__(self, outputs: int, classes: int) -> None:
        self.t = 0
        self.temperatures, self.hardness = np.ones(outputs), np.full(outputs, 10.0)
        self.losses, self.shares = np.zeros(outputs), np.full(outputs, 1.0 / outputs)
        self.stack, self.hessian = np.eye(outputs + 1)[0], np.zeros((outputs + 1, outputs + 1))
        self.mix = np.array([0.3, 0.6, 0.04, 0.04, 0.02])
        self.bias, self.firmness = np.zeros(classes), np.full(classes, 10.0)
        self.rows, self.gaps = np.zeros(15), np.zeros(15)  # near each knot

    def combine(self, z: Any) -> Any:
        self.z = np.clip(z, -50.0, 50.0)
        each = self.temperatures[:, None] * self.z
        mean = self.shares @ each
        self.f = np.vstack([mean, each - mean])
        g = self.stack @ self.f + self.bias
        uniform = np.full(len(g), 1.0 / len(g))
        self.parts = np.array([softmax(mean), softmax(g), softmax(3.0 * g), softmax(g / 3.0), uniform])
        self.p = self.mix @ self.parts
        top, near = self.likeliest()
        if not near.any():
            return np.log(self.p)
        others = np.delete(self.p, top)
        second, rest = others.max(), others.sum()
        least = min(self.p[top], 1.001 * second / (rest + second))
        sure = max(self.p[top] + near @ (self.gaps / (self.rows + 50.0)), least)
        left = max(1.0 - sure, 0.1 * rest)
        corrected = self.p * left / rest
        corrected[top] = 1.0 - left
        return np.log(corrected)

    def likeliest(self) -> tuple[int, Any]:
        """The likeliest class, and how near its probability is to each of 15 knots."""
        top = int(np.argmax(self.p))
        if self.p[top] <= (1.0 + 1e-9) * np.delete(self.p, top).max():
            return top, np.zeros(15)  # two are equally likely
        return top, np.maximum(0.0, 1.0 - np.abs(np.arange(15) - np.clip(self.p[top] * 15 - 0.5, 0.0, 14.0)))

    def teach(self, y: int, weight: float) -> None:
        h, keep = min(weight, 10.0), (self.t + 1.0) / (self.t + 6.0)
        label = np.eye(self.z.shape[1])[y]
        top, near = self.likeliest()
        self.rows = keep * self.rows + h * near
        self.gaps = keep * self.gaps + h * near * (label[top] - self.p[top])
        pace = 1.0 - (1.0 - max(0.01, 1.0 / np.sqrt(self.t + 50.0))) ** h
        self.mix = self.mix * (1.0 - pace + pace * self.parts[:, y] / (self.mix @ self.parts[:, y]))
        self.mix = np.maximum(self.mix, 1e-6) / np.maximum(self.mix, 1e-6).sum()
        p = self.parts[1]
        self.hessian = keep * self.hessian + h * (self.f @ (np.diag(p) - np.outer(p, p)) @ self.f.T)
        step = np.linalg.solve(self.hessian + 10.0 * np.eye(len(self.stack)), h * self.f @ (p - label))
        self.stack = np.clip(self.stack - step, -20.0, 20.0)
        self.firmness = keep * self.firmness + (1.0 - keep) * 10.0 + h * p * (1.0 - p)
        self.bias = self.bias - h * (p - label) / self.firmness
        for o, z in enumerate(self.z):
            p = softmax(self.temperatures[o] * z)
            self.losses[o] = keep * self.losses[o] - h * np.log(p[y])
            self.hardness[o] = keep * self.hardness[o] + (1.0 - keep) * 10.0 + h * (p @ z**2 - (p @ z) ** 2)
            self.temperatures[o] = np.clip(self.temperatures[o] - h * (p @ z - z[y]) / self.hardness[o], 0.05, 20.0)
        self.shares = np.exp(-0.5 * (self.losses - self.losses.min()))
        self.shares /= self.shares.sum()
        self.t += 1


class AdaGrad:
    """One energy for each feature, shared by all classes."""

    def __init__(self, classes: int, width: int, step: float) -> None:
        self.W, self.E, self.step = np.zeros((classes, width)), np.zeros(width), step

    def learn(self, x: Any, y: int, h: float, unit: float = 1.0) -> None:
        z = self.W @ x
        slopes = softmax(z) - np.eye(len(z))[y]
        met = x != 0.0
        fresh = met & (self.E == 0.0)
        self.E[fresh] = 0.1 * x[fresh] ** 2
        self.E += h * (slopes @ slopes) * x**2
        pace = np.divide(self.step / unit * x, np.sqrt(self.E), out=np.zeros_like(x), where=met)
        if h > 1.0:
            slopes = implicit(z, y, np.full(len(z), float(pace @ x)), h - 1.0)
        slopes = np.where(np.abs(slopes) > 1e-3, h * slopes, 0.0)
        self.W = self.W - np.outer(slopes, pace)


class Definition:
    """``way`` is "few", "dense" or "wide", from the first row on."""

    def __init__(self, classes: int, width: int, way: str, sketch_size: int = 20) -> None:
        self.K, self.way = classes, way
        self.m = max(sketch_size, min(3 * classes, 4 * sketch_size))
        self.rows: list[Any] = []
        self.norms: list[float] = []
        d = width + 1  # the constant feature is the last
        if way == "wide":
            self.ada = [AdaGrad(classes, d, step) for step in (3.0, 2.0, 3.0)]
            self.prox = np.zeros((classes, d))
            self.logs: list[float] = []
            self.pool = Pool(4, classes)
            return
        self.ada = [AdaGrad(classes, d, 2.0) for _ in range(2)]
        self.W = np.zeros((2, classes, d))
        self.sums, self.total = np.zeros((3, classes, d)), 0.0
        self.P = np.zeros((2, classes, d, d))
        self.S, self.escaped, self.used = np.zeros((0, d)), 0.0, 0.0
        self.alpha, self.alpha_sum = np.zeros(classes), 0.0
        self.pool = Pool(7, classes)

    def learn(self, x: Any, y: int, h: float = 1.0) -> Any:
        self.rows.append(np.asarray(x, float))
        return self._wide(y, h) if self.way == "wide" else self._dense(y, h)

    def _scaled(self) -> tuple[Any, float]:
        """The row, centred and scaled, and the mean squared length."""
        X = np.array(self.rows)
        counts = (X != 0.0).sum(axis=0)
        share = counts / len(X)
        mean, variance = X.mean(axis=0), X.var(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            deviation = np.sqrt(variance / share)
            x = np.where(deviation > 1e-9 * np.abs(mean), (X[-1] - np.where(share > 0.5, mean, 0.0)) / deviation, 0.0)
        self.norms.append(float(x @ x))
        return x, float(np.mean(self.norms))

    def _dense(self, y: int, h: float) -> Any:
        x, norm = self._scaled()
        length = np.sqrt(x @ x)
        scaled = np.append(x, np.sqrt(norm) if norm > 0.0 else 1.0)
        unit = np.append(x / length if length > 0.0 else x, 0.3)
        averages = self.sums / self.total if self.total else np.zeros_like(self.sums)
        weights = [*self.W, self.ada[0].W, self.ada[1].W, *averages]
        z = np.array([w @ (unit if o == 3 else scaled) for o, w in enumerate(weights)])
        log_p = self.pool.combine(z)
        self.pool.teach(y, h)
        if norm == 0.0:
            return log_p
        (self._metrics if self.way == "few" else self._sketch)(scaled, norm, z, y, h)
        self.ada[0].learn(scaled, y, h, np.sqrt(norm))
        self.ada[1].learn(unit, y, h)
        weight = h * len(self.rows) ** 3
        self.total += weight
        self.sums += weight * np.array([*self.W, self.ada[0].W])
        return log_p

    def _metrics(self, x: Any, norm: float, z: Any, y: int, h: float) -> None:
        """A feature's own entry in a class's inverse starts when both first meet, from the ridge as it is then."""
        X = np.array(self.rows)
        there = np.append((X[-1] != 0.0) | ((X != 0.0).mean(axis=0) > 0.5), True)
        for e, (c, step) in enumerate([(0.1, 1.5), (0.001, 2.0)]):
            active = z[e] > z[e, y] - np.log(10.0 * max(h, 1.0) * step * (x @ x) / (c * norm))
            for k in np.flatnonzero(active):
                fresh = np.flatnonzero(there & (np.diag(self.P[e][k]) == 0.0))
                self.P[e][k][fresh, fresh] = 1.0 / (c * norm)
            tau = np.where(active, [step * (x @ P @ x) for P in self.P[e]], 0.0)
            slopes = implicit(z[e], y, tau, h)
            for k in np.flatnonzero(tau):
                direction = self.P[e][k] @ x
                self.W[e, k] -= h * step * slopes[k] * direction
                bend = h * abs(slopes[k]) * (1.0 - abs(slopes[k]))
                if bend * tau[k] > 1e-5:
                    shorter = bend / (1.0 + bend * (x @ direction))  # the inverse of A + bend·xxᵀ
                    self.P[e][k] = self.P[e][k] - shorter * np.outer(direction, direction)

    def _sketch(self, x: Any, norm: float, z: Any, y: int, h: float) -> None:
        if norm > 1.1 * self.used or self.used > 1.1 * norm:
            self.used = norm
        trust = self.pool.shares[[0, 1]] + self.pool.shares[[4, 5]] + 1e-9
        trust /= trust.sum()
        curvature, told = 0.0, 0.0
        for e, (c, gamma, step) in enumerate([(0.1, 0.5, 4.0), (0.001, 0.005, 2.0)]):
            A = (c * self.used + gamma * self.escaped) * np.eye(len(x)) + self.S.T @ self.S
            direction = np.linalg.solve(A, x)
            leverage = x @ direction
            alpha = np.maximum((self.alpha * self.K + 1.0) / (self.alpha_sum + 1.0), 0.01)
            slopes = implicit(z[e], y, step * leverage / alpha, h)
            self.W[e] -= np.outer(h * step * slopes / alpha, direction)
            bend = h * np.abs(slopes) * (1.0 - np.abs(slopes))
            self.alpha = self.alpha + trust[e] * bend
            self.alpha_sum += trust[e] * bend.sum()
            curvature += trust[e] * bend.sum() / (self.K - 1)
            told = max(told, leverage)
        if curvature * told > 1e-6:
            self.S = np.vstack([self.S, np.sqrt(curvature) * x])
        if len(self.S) == 2 * self.m:
            _, s, V = np.linalg.svd(self.S, full_matrices=False)
            s = np.append(s, np.zeros(self.m))
            rho = s[self.m - 1] ** 2
            kept = min(self.m - 1, len(V))
            self.S = np.zeros((self.m - 1, len(x)))
            self.S[:kept] = np.sqrt(np.maximum(s[:kept] ** 2 - rho, 0.0))[:, None] * V[:kept]
            self.escaped += rho

    def _wide(self, y: int, h: float) -> Any:
        X = np.array(self.rows)
        counts = (X != 0.0).sum(axis=0)
        met = X[-1] != 0.0
        squares = (X[:, met] ** 2).sum(axis=0) / counts[met]
        self.logs += list(0.5 * np.log(squares))
        x = X[-1] / np.exp(np.mean(self.logs))
        self.norms.append(float(x @ x))
        norm = float(np.mean(self.norms))
        rare = x * np.log((len(X) + 1.0) / (counts + 0.5))
        scaled = np.append(x, np.sqrt(norm))
        unit, idf = (np.append(v / np.sqrt(v @ v), 0.3) for v in (x, rare))
        z = np.array([self.ada[0].W @ unit, self.ada[1].W @ idf, self.prox @ unit, self.ada[2].W @ scaled])
        log_p = self.pool.combine(z)
        self.pool.teach(y, h)
        self.ada[0].learn(unit, y, h)
        self.ada[1].learn(idf, y, h)
        self.ada[2].learn(scaled, y, h, np.sqrt(norm))
        length = 100.0 * (unit @ unit)
        slopes = implicit(z[2], y, np.full(self.K, length), h)
        slopes = np.where(np.abs(slopes) > 1e-3, h * slopes, 0.0)
        self.prox = self.prox - np.outer(slopes, 100.0 * unit)
        return log_p
