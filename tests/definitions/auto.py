"""The learner without tuning written out with explicit matrices and weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from definitions.softmax import Pool, softmax
from definitions.softmax import implicit as implicit_classes
from definitions.steps import DEGREE, implicit, in_unit, slope, slope_unit, value
from streams import REAL

Array = np.ndarray
RIDGES, GROWTHS = {True: (0.2, 0.001), False: (0.03, 0.003)}, {True: (0.0, 0.0), False: (0.5, 0.05)}
STEPS, PRIORS = (1.5, 5.0, 3.0), np.array([1, 1, 1, 4, 4]) / 11


def typical(length: float, square: float, t: float) -> float:
    if length == 0.0 or square == 0.0:
        return max(length, square)
    return float((length**0.125 + (square**0.125 - length**0.125) / t) ** 8)


class Definition:
    """One row at a time; feature 0 is the constant, x₀ = √used for Newton experts and 1 for the AdaGrads."""

    def __init__(self, d: int, loss: str, size: int, *, exact: bool, classes: int = 1, forget: float = 1.0) -> None:
        self.d, self.loss, self.size, self.exact, self.K, self.forget = d, loss, size, exact, classes, forget
        self.many, self.real = classes > 1, loss in REAL
        self.signs = not (self.many or self.real or loss == "poisson")
        n = d + 1
        self.magnitude, self.values, self.mean, self.square = np.zeros((4, n))
        self.visits, self.changes, self.last = np.zeros((3, n))
        self.centre, self.scale, self.in_use = np.zeros((3, n))
        self.listed: list[int] = []
        self.seen: list[int] = []
        self.w, self.E = np.zeros((5, classes, n)), np.zeros((3, n))
        self.A = np.zeros((2, classes, n, n))
        self.S, self.fade, self.thin, self.lost, self.credit = np.zeros((0, n)), 1.0, 1.0, 0.0, 0.0
        self.pending = np.zeros((2, classes))
        self.alphas = np.zeros(classes)
        self.norm = self.wide = self.used = self.start = self.common = self.logs = 0.0
        self.t = 0
        self.label = self.mean_label = self.unit = self.total = 0.0
        self.low, self.high, self.heaviest = math.inf, -math.inf, 1.0
        self.temper, self.hard, self.sums, self.shares = np.ones(5), np.full(5, 10.0), np.zeros(5), PRIORS.copy()
        self.stack, self.hessian = np.eye(1, 7)[0], np.zeros((7, 7))
        self.ways, self.way = np.zeros(2), np.full(2, 0.5)
        self.pool = Pool(5, classes)

    def ridge(self, e: int) -> float:
        return RIDGES[self.exact][e] * self.used + GROWTHS[self.exact][e] * self.lost

    # the row and the predictions

    def rarities(self) -> Array:
        """By what the first expert multiplies each feature."""
        return np.asarray(1 + 0.5 * np.log(np.maximum(self.t / np.maximum(self.values, 1), 1)))

    def rows(self, v: Array, visited: list[int], cut: float, rarities: Array, common: float) -> Array:
        """(5, n): the row as each expert sees it, at its own length."""
        x = np.zeros((5, self.d + 1))
        on = np.array(visited, int)
        scale, size = self.scale[on], self.in_use[on]
        own = np.clip((v[on] - self.centre[on]) / np.where(scale > 0, scale, np.inf), -cut, cut)
        broad = np.clip(size / math.exp(common), 1 / 3, 3)
        x[1][on] = x[2][on] = np.clip(v[on] / np.where(size > 0, size, np.inf), -cut, cut) * broad
        x[3][on] = x[4][on] = own
        x[0][on] = own * rarities[on]
        x[:, 0] = (1, 1, 1, math.sqrt(self.used), math.sqrt(self.used))
        return x

    def factors(self, x: Array) -> Array:
        """(5, 2): by what the features and the constant are multiplied where the row is learned."""
        by = np.ones((5, 2))
        squares = (x[:, 1:] ** 2).sum(axis=1)
        f = math.sqrt(2 * self.used / (squares[3] + self.used)) if self.used > 0 else 1.0
        if self.signs:
            by[:] = f
        elif self.many:
            by[3:] = f
            by[0, 0] = math.sqrt(self.norm / squares[0]) if squares[0] > 0 else 0.0
            by[1:3, 0] = math.sqrt(self.wide / squares[1]) if squares[1] > 0 else 0.0
        return by

    def visited(self, v: Array) -> list[int]:
        on = [int(j) for j in np.flatnonzero(v) if j > 0]
        return [*self.listed, *(j for j in on if j not in self.listed)]

    def margins(self, v: Array) -> Array:
        """(5, K): of many classes with the factors of the row."""
        x = self.rows(v, self.visited(v), 10.0 if self.many else math.inf, self.rarities(), self.common)
        if self.many:
            x = np.column_stack([x[:, :1] * self.factors(x)[:, 1:], x[:, 1:] * self.factors(x)[:, :1]])
        return np.einsum("okj,oj->ok", self.w, x)

    @property
    def mix(self) -> Array:
        """(6,): coefficients of the experts in the prediction, and the constant's."""
        stacked = self.stack[0] - self.stack[1:6].sum()
        by = (self.way[0] + self.way[1] * stacked) * self.shares + self.way[1] * self.stack[1:6]
        return np.append(self.temper * by, self.way[1] * self.stack[6])

    def predict(self, features: Array) -> float:
        if self.t == 0:
            return 0.0
        z = self.margins(np.append(0.0, features))[:, 0]
        total = self.label + self.mix[5] * (self.unit if self.real else 1.0) + self.mix[:5] @ z
        room = 0.1 * (self.high - self.low)
        if self.loss == "poisson":
            return min(total, math.log(max(self.high + room, 1.0)))
        return float(total if self.signs else min(max(total, self.low - room), self.high + room))

    # scales

    def follow(self, j: int, v: float) -> None:
        size, n, m = abs(v), self.values[j], self.magnitude[j]
        if size > 0:
            fresh = m == 0 or (n < 10 and size > 10 * m)
            self.magnitude[j] = size if fresh else m + 2 / (n + 2) * (min(size, 10 * m) - m)
            self.values[j] += 1
        if j not in self.listed:
            return
        self.visits[j] += 1
        n = self.visits[j]
        widest = 10 * max(math.sqrt(self.square[j]), 1e-4 * self.magnitude[j]) if n > 10 else math.inf
        self.mean[j] += min(max(v - self.mean[j], -widest), widest) / n
        away = min(abs(v - self.mean[j]), widest)
        self.square[j] += (1 / n if n < 10 else 2 / (n + 1)) * (away**2 - self.square[j])
        self.changes[j] += v != self.last[j]
        self.last[j] = v

    def visit(self, v: Array, visited: list[int]) -> None:
        gone = []
        away = []
        for j in visited:
            self.follow(j, v[j])
            if j not in self.listed and self.values[j] > 0.6 * self.t:
                self.listed.append(j)
                self.mean[j] = self.last[j] = v[j]
                self.square[j], self.visits[j], self.changes[j] = 0.0, 1.0, 1.0
            elif j in self.listed and self.values[j] < 0.4 * self.t:
                gone.append(j)
            centre, scale = 0.0, self.magnitude[j]
            if j in self.listed and j not in gone:
                centre = self.mean[j]
                scale = math.sqrt(self.square[j]) + self.magnitude[j] / math.sqrt(self.changes[j])
                scale = scale if scale > 1e-9 * abs(centre) else 0.0
            used = self.scale[j]
            moved = scale > 1.1 * used or used > 1.1 * scale or abs(centre - self.centre[j]) > 0.1 * used
            if used == 0:
                self.scale[j], self.centre[j] = scale, centre
            elif scale > 0 and (moved or j in gone):
                self.change(j, used / scale, (self.centre[j] - centre) / scale)
                self.scale[j], self.centre[j] = scale, centre
            size = self.in_use[j]
            if j in gone or not size <= 1.1 * self.magnitude[j] or not self.magnitude[j] <= 1.1 * size:
                self.in_use[j] = self.magnitude[j]
            if v[j] != 0:
                gap = math.log(self.in_use[j]) - self.common
                away.append(gap if self.logs < 10 else min(max(gap, -1), 1))
        self.logs += len(away)
        self.common += sum(away) / max(self.logs, 1)
        self.listed = [j for j in self.listed if j not in gone]

    def change(self, j: int, r: float, b: float) -> None:
        """Feature j is x' = r·x + b from now on: w ← T⁻ᵀw, A ← T A Tᵀ, and then the prior is exchanged."""
        if self.used == 0:
            return
        tau = b / math.sqrt(self.used) if j > 0 else 0.0
        T = np.eye(self.d + 1)
        T[j, j], T[j, 0] = r, T[j, 0] * r + tau if j else r
        self.E[0, j] *= r * r
        self.w[0, :, 0] -= b * self.w[0, :, j]
        back = np.linalg.inv(T).T
        before = [[self.ridge(e) * np.eye(self.d + 1) + self.S.T @ self.S for _ in range(self.K)] for e in range(2)]
        self.S = self.S @ T.T
        for e in range(2):
            g = self.ridge(e) * (1 - r * r)
            for k in range(self.K):
                w = back @ self.w[3 + e, k]
                if self.exact:
                    seen = np.ix_(self.seen, self.seen)
                    A = (T @ self.A[e, k] @ T.T)[seen]
                    at = self.seen.index(j)
                    if abs(g) * np.linalg.inv(A)[at, at] > 0.01:
                        A[at, at] += g
                        w[self.seen] -= g * w[j] * np.linalg.inv(A)[:, at] / 1.0
                    self.A[e, k][seen] = A
                else:
                    A = T @ before[e][k] @ T.T
                    A[j, :] = A[:, j] = 0.0  # of the ridge only its own entry is left, and S gives the rest
                    whole = self.ridge(e) * np.eye(self.d + 1) + self.S.T @ self.S
                    w = w - g * w[j] * np.linalg.inv(whole)[:, j]
                self.w[3 + e, k] = w

    # learning

    def learn(self, features: Array, y: float, h: float = 1.0) -> Any:
        """The prediction made before; of many classes their log-probabilities."""
        v = np.append(0.0, features)
        prediction = self.pool.combine(self.margins(v)) if self.many else self.predict(features)
        rarities, common = self.rarities(), self.common if self.logs else None
        self.t += 1
        visited = self.visited(v)
        for j in [0, *visited]:
            if j not in self.seen:
                self.seen.append(j)
                for e in range(2):
                    self.A[e, :, j, j] = self.ridge(e)
        self.visit(v, visited)
        x = self.rows(v, visited, 10.0, rarities, self.common if common is None else common)
        squares = (x[:, 1:] ** 2).sum(axis=1)
        self.wide = self.wide or squares[1]
        if self.norm == 0 and squares[3] > 0:
            self.norm, self.used, self.start = squares[3], squares[3], self.t - 1
            for e in range(2):
                self.A[e, :, self.seen, self.seen] = self.ridge(e)
            x[3:, 0] = math.sqrt(self.used)
        by = self.factors(x)
        x = np.column_stack([x[:, 0] * by[:, 1], x[:, 1:] * by[:, :1]])
        z = np.einsum("okj,oj->ok", self.w, x)
        unit, target = 1.0, y
        if not self.many:
            target, h_here = self.see_label(y, h)
            unit = self.unit if self.real else 1.0
            self.mix_learns(z[:, 0], by[0, 1], target, h, h_here, unit)
            h = h_here
        else:
            self.pool.teach(int(y), h)
        shares = self.pool.shares if self.many else self.shares
        if self.norm > 0:
            self.newton(x[3], z[3:], target, h, h * unit if DEGREE.get(self.loss) == 1 else h, shares[3:])
        self.adagrad(x[:3], z[:3], target, h, unit)
        if not self.many:
            self.count_label(y)
        self.wide = typical(self.wide, squares[1], self.t)
        moved = self.norm > 0 and self.follow_length(squares[3])
        self.fade, self.thin = self.fade * self.forget, self.thin * self.forget
        faded = self.fade < 0.5 and not moved  # not at once with new ridges
        if self.exact and faded:
            for e in range(2):
                self.A[e] *= self.fade
                self.A[e, :, self.seen, self.seen] += (1 - self.fade) * self.ridge(e)
            self.fade = 1.0
        elif not self.exact and (len(self.S) == 2 * self.size or faded):
            self.shrink()
        return prediction

    def see_label(self, y: float, h: float) -> tuple[float, float]:
        if self.loss == "poisson":
            self.label = math.log(max(y, 0.01)) if self.t == 1 else self.label
            self.mean_label += (y - self.mean_label) / self.t
            return y / math.exp(self.label), h * math.exp(self.label)
        if not self.real:
            return y, h
        self.label = y if self.t == 1 else self.label
        self.mean_label += (y - self.label - self.mean_label) / self.t
        self.unit += (abs(y - self.label - self.mean_label) - self.unit) / self.t
        return y - self.label, h

    def count_label(self, y: float) -> None:
        self.low, self.high = min(self.low, y), max(self.high, y)
        away, unit = self.mean_label, self.unit if self.real else 1.0
        if self.loss == "poisson":
            away = math.log(max(self.mean_label, 0.01)) - self.label
        if not self.signs and abs(away) > 0.5 * unit:
            self.w[:3, 0, 0] -= away
            if self.used > 0:
                self.w[3:, 0, 0] -= away / math.sqrt(self.used)
            self.label += away
            self.mean_label -= away if self.real else 0.0

    def mix_learns(self, z: Array, one: float, y: float, weight: float, h: float, unit: float) -> None:
        if self.loss != "poisson":
            self.heaviest *= 2 if weight > self.heaviest else 1
            h = min(h, self.heaviest)
        keep = self.forget * self.t / (self.t + 1)
        self.total = self.forget * self.total + h
        if unit <= 0 or (self.real and self.t <= 10):
            return
        low, high = -50.0, 50.0
        if self.real:
            room = 0.1 * (self.high - self.low)
            low, high = (self.low - room - self.label) / unit, (self.high + room - self.label) / unit
        z, y = np.clip(z / unit, low, high), y / unit
        loss = in_unit(self.loss, unit)
        f = self.temper * z
        mean = self.shares @ f
        row = np.concatenate([[mean], f - mean, [one]])
        g = self.stack @ row
        self.sums = keep * self.sums + h * np.array([value(loss, v, y) for v in f])
        self.ways = keep * self.ways + h * np.array([value(loss, mean, y), value(loss, g, y)])
        hard = self.forget * self.hard + (1 - self.forget) * 10
        steps = [implicit(loss, v, y, h * x * x / w) for v, x, w in zip(f, z, hard, strict=True)]
        slopes, bends = np.array(steps).T
        self.temper = np.clip(self.temper - h * slopes * z / hard, 0.05, 20)
        self.hard = hard + h * bends * z * z
        self.hessian *= self.forget
        along = np.linalg.solve(self.hessian + 3 * np.eye(7), row)
        s, bend = implicit(loss, g, y, h * (along @ row))
        self.hessian += h * bend * np.outer(row, row)
        self.stack = np.clip(self.stack - h * s * along, -20, 20)
        self.shares, self.way = self.weigh(self.sums, PRIORS), self.weigh(self.ways, np.full(2, 0.5))

    def weigh(self, sums: Array, priors: Array) -> Array:
        degree = DEGREE.get(self.loss, 0)
        worse = sums - sums.min()
        if degree:
            worse = self.total / 2 / degree * np.log(np.maximum(sums, 1e-290) / max(sums.min(), 1e-290))
        by = priors * np.exp(-np.minimum(0.5 / self.heaviest * worse, 700))
        return np.asarray(by / by.sum())

    def newton(self, x: Array, z: Array, y: float, h: float, pace: float, shares: Array) -> None:
        told = curvature = 0.0
        for e in range(2):
            lowest = z[e, int(y)] - math.log(max(x @ x / (0.1 * self.ridge(e)), 1)) if self.many else -math.inf
            directions, tau = np.zeros((self.K, self.d + 1)), np.zeros(self.K)
            for k in range(self.K):
                if self.exact:
                    A = (self.fade * self.A[e, k])[np.ix_(self.seen, self.seen)]
                    if not self.many or k == int(y) or z[e, k] > lowest:
                        directions[k, self.seen] = np.linalg.solve(A, x[self.seen])
                else:
                    A = self.fade * (self.ridge(e) * np.eye(self.d + 1) + self.S.T @ self.S)
                    directions[k] = np.linalg.solve(A, x)
                    told = max(told, x @ directions[k])
                    if self.many:
                        share = (self.alphas[k] * self.K + 1) / (self.alphas.sum() + 1)
                        directions[k] /= max(share, 0.01)
                tau[k] = x @ directions[k]
            if self.many:
                s = implicit_classes(z[e], int(y), tau, h)
                bends = np.abs(s) * (1 - np.abs(s))
            else:
                s, bend = (np.array([part]) for part in implicit(self.loss, z[e, 0], y, pace * tau[0]))
                bends = bend
            self.w[3 + e] -= (pace * s)[:, None] * directions
            if self.exact:
                worth = 0.08 if self.signs or self.many else 1e-5
                for k in np.flatnonzero(tau > 0):
                    information = h * bends[k] * tau[k]
                    self.pending[e, k] += information
                    if information > 0 and self.pending[e, k] >= worth:
                        self.pending[e, k] -= max(information, worth)
                        by = h * bends[k] / self.fade * max(1, worth / information)
                        self.A[e, k] += by * np.outer(x, x)
            else:
                trust = (shares[e] + 0.5e-9) / (shares.sum() + 1e-9)
                curvature += trust * h * bends.sum() / max(self.K - 1, 1)
                self.alphas += trust * h * bends * self.many
        if self.exact:
            return
        self.credit += curvature * told
        if curvature * told > 0 and self.credit >= 0.08:
            self.credit -= max(curvature * told, 0.08)
            rho = math.sqrt(curvature / self.fade * max(1, 0.08 / (curvature * told)))
            self.S = np.vstack([self.S, rho * x])

    def adagrad(self, x: Array, z: Array, y: float, h: float, unit: float) -> None:
        first = 0.1 * slope_unit(self.loss, unit) ** 2
        for o in range(3):
            norm = self.wide if o else self.norm
            if norm == 0:
                continue
            s = softmax(z[o]) if self.many else np.array([slope(self.loss, z[o, 0], y)])
            s = s - (np.arange(self.K) == y) if self.many else s
            on = x[o] != 0
            self.E[o] += x[o] ** 2 * (h * (s @ s) + np.where(self.E[o] == 0, first, 0)) / self.thin
            by = STEPS[o] * unit / math.sqrt(norm) * x[o] / np.sqrt(np.where(on, self.E[o] * self.thin, 1) + 1e-290)
            reach = x[o] @ by
            if self.many:
                s = implicit_classes(z[o], int(y), np.full(self.K, reach), h)
            else:
                part = implicit(self.loss, z[o, 0], y, h * reach)[0]
                bold = s[0] / max(h, 1.0) if o == 2 and self.signs else part
                s = np.array([max(bold, part, key=abs)])
            self.w[o] -= h * np.outer(s, by)

    def follow_length(self, square: float) -> bool:
        self.norm = typical(self.norm, square, self.t - self.start)
        leap = 1.5 if self.exact else 1.1
        if self.norm <= leap * self.used and self.used <= leap * self.norm:
            return False
        energy, before = self.E[0, 0], self.used
        self.change(0, math.sqrt(self.norm / before), 0.0)
        self.E[0, 0], self.used = energy, self.norm
        if self.exact:
            seen = np.ix_(self.seen, self.seen)
            for e in range(2):
                for k in range(self.K):
                    A = self.A[e, k][seen].copy()
                    more = A + RIDGES[True][e] * (self.used - before) * np.eye(len(A))
                    self.w[3 + e, k, self.seen] = np.linalg.solve(more, A @ self.w[3 + e, k, self.seen])
                    self.A[e, k][seen] = more
        return True

    def shrink(self) -> None:
        values, vectors = np.linalg.eigh(self.fade * self.S.T @ self.S)
        values, vectors = values[::-1], vectors[:, ::-1]
        if len(self.S) == 2 * self.size:
            rho = max(values[self.size - 1], 0.0) if len(values) >= self.size else 0.0
            kept = vectors[:, : self.size - 1] * np.sqrt(np.maximum(values[: self.size - 1] - rho, 0))
            self.S = np.zeros((self.size - 1, self.d + 1))
            self.S[: kept.shape[1]] = kept.T
            self.lost = self.fade * self.lost + rho
        else:
            self.S = math.sqrt(self.fade) * self.S
            self.lost *= self.fade
        self.fade = 1.0


def experts(definition: Definition) -> dict[str, Any]:
    """What the tests compare: weights (features, outputs, K) and energies."""
    return {"weights": definition.w.transpose(2, 0, 1), "energies": definition.E.T}
