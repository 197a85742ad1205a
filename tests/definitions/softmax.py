"""Softmax, its implicit step and the pool of several classes, written out in dense NumPy."""

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
