"""The table of geometries: a preconditioner is a scalar function of a spectrum.

A summary of the past rows has orthonormal directions V with energies λ (``SᵀS = Vᵀ diag(λ) V``). The
learner steps along ``P g`` with ``P = H⁻¹``, ``H = Vᵀ diag(h(λ)) V + h(0)(I − VᵀV)``, and the whole difference between
online Newton and full-matrix AdaGrad is the function h:

===========  ====================================  ==========================================
newton       h(λ) = ridge + λ                      Hazan, Agarwal and Kale 2007; luo2016
adagrad      h(λ) = ridge + √λ                     Duchi, Hazan and Singer 2011; wan2021
s-adagrad    h(λ) = √(ridge + escaped + λ)         Feinberg et al. 2023 (Sketchy)
gradient     H = √t·I, for any rows                Zinkevich 2003
===========  ====================================  ==========================================

``escaped`` is the mass Σρ that frequent directions has shrunk away.

A geometry is one entry here, or one that another package registers. Every sketch and learner then supports it, or
refuses it with a reason. Its formula is written once, as a plain function of numbers. Compiled loops use it through
``onsketch.core.spectral_step``, dense learners through ``Geometry.metrics``.

>>> gentle = Geometry("gentle", lambda energy, ridge, escaped: ridge + energy**0.25, "a gentler AdaGrad")
>>> gentle.metrics([0.0, 16.0], 1.0)
[1.0, 3.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from onsketch.core.errors import OptionError

NEWTON, ADAGRAD, S_ADAGRAD, GRADIENT, OUTSIDE = range(5)
"""Codes of the geometries in compiled loops. All registered ones share the last code, and each has its own type."""


@dataclass(frozen=True)
class Geometry:
    """One geometry.

    Args:
        name: as in ``compose(geometry=...)``.
        metric: ``h(energy, ridge, escaped)`` for one direction, positive where the ridge is; what Numba compiles.
            None for plain gradient steps, which look at no spectrum.
        line: what it is, in a few words.
        code: of the geometries of this package.
        newton: whether steps are Newton steps: rows absorbed are √(σ+η_t)·g, and the ridge may grow with the rows.
        counts_escaped: whether h looks at ``escaped`` (then a sketch that gives it back would count it twice).
        coefficients: of a ridge: ``(flat, unit, root, inside)`` with ``h = flat + unit·λ + root·√(inside + λ)``, for
            loops over features that must not branch. A second form of the same formula, for speed; tests compare both.
    """

    name: str
    metric: Callable[[float, float, float], float] | None
    line: str
    code: int = OUTSIDE
    newton: bool = False
    counts_escaped: bool = False
    coefficients: Callable[[float], tuple[float, float, float, float]] | None = None

    @property
    def spectral(self) -> bool:
        """True if its metric is a function of a spectrum."""
        return self.metric is not None

    def metrics(self, energies: Iterable[float], ridge: float, escaped: float = 0.0) -> list[float]:
        """``h(λ)`` for each of these energies."""
        if self.metric is None:
            raise OptionError(f"geometry={self.name!r} is not a function of a spectrum.")
        return [self.metric(float(energy), ridge, escaped) for energy in energies]

    def inverses(self, energies: Iterable[float], ridge: float, escaped: float = 0.0) -> list[float]:
        """``p(λ) = 1/h(λ)``, or the pseudo-inverse's 0."""
        return [1.0 / metric if metric > 0.0 else 0.0 for metric in self.metrics(energies, ridge, escaped)]


def _newton(energy, ridge, escaped):
    return ridge + energy


def _adagrad(energy, ridge, escaped):
    return ridge + math.sqrt(energy)


def _s_adagrad(energy, ridge, escaped):
    return math.sqrt(ridge + escaped + energy)


GEOMETRIES: dict[str, Geometry] = {
    geometry.name: geometry
    for geometry in (
        Geometry("newton", _newton, "online Newton", NEWTON, newton=True,
                 coefficients=lambda ridge: (ridge, 1.0, 0.0, 0.0)),
        Geometry("adagrad", _adagrad, "AdaGrad", ADAGRAD,
                 coefficients=lambda ridge: (ridge, 0.0, 1.0, 0.0)),
        Geometry("s-adagrad", _s_adagrad, "AdaGrad with all inside the root", S_ADAGRAD, counts_escaped=True,
                 coefficients=lambda ridge: (0.0, 0.0, 1.0, ridge)),
        Geometry("gradient", None, "plain gradient steps", GRADIENT,
                 coefficients=lambda ridge: (ridge, 0.0, 0.0, 0.0)),
    )
}  # fmt: skip
"""Every geometry by its name."""


def geometry_of(name: str) -> Geometry:
    """The geometry of this name, or an error that lists all."""
    if name not in GEOMETRIES:
        raise OptionError(f"geometry={name!r}: expected one of {', '.join(GEOMETRIES)}.")
    return GEOMETRIES[name]


def register(geometry: Geometry) -> Geometry:
    """Add a geometry from outside to the table; a name is given once."""
    if geometry.name in GEOMETRIES:
        raise OptionError(f"there is a geometry {geometry.name!r} already; give yours another name.")
    if geometry.metric is None or geometry.code != OUTSIDE or geometry.newton or geometry.coefficients:
        raise OptionError(
            f"geometry {geometry.name!r}: give a name, a metric and a line; the rest is for the package's own."
        )
    GEOMETRIES[geometry.name] = geometry
    return geometry
