"""Steps from a spectrum: the geometries in compiled loops.

The geometries of this package share one compiled loop, which looks at the code in the learner's ``Setup``. A registered
geometry has its own class of ``Setup`` (``setup_class``). Loops are compiled for it on their first call with that
class, so existing compiled code does not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from onsketch.core.geometry import ADAGRAD, GEOMETRIES, NEWTON, OUTSIDE, S_ADAGRAD, Geometry
from onsketch.jit.by_type import chosen_by_type
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import joined, lane, plus, quotient, root, spread

Function = Callable[..., Any]

_forms: list[tuple[dict[type, Function], Callable[[Any], Function]]] = []
_outside: dict[type, Any] = {}


def chosen_by_geometry(function: Function, make: Callable[[Any], Function], **options: Any) -> None:
    """``function`` serves the geometries of this package; ``make(h)`` is its like for the compiled h of another."""
    implementations = chosen_by_type(function, otherwise=True, **options)
    _forms.append((implementations, make))
    for kind, metric in _outside.items():
        implementations[kind] = make(metric)


@cache
def setup_class(base: type, geometry: Geometry) -> type:
    """The class of ``Setup`` for learners of this geometry."""
    if geometry.code != OUTSIDE:
        return base
    kind = type(f"{base.__name__}_{geometry.name}", (base,), {"__slots__": (), "__module__": __name__})
    globals()[kind.__name__] = kind  # so that compiled code for it is found in the disk cache
    assert geometry.metric is not None
    _outside[kind] = inlined(geometry.metric)
    for implementations, make in _forms:
        implementations[kind] = make(_outside[kind])
    return kind


_newton, _adagrad, _s_adagrad = (inlined(GEOMETRIES[name].metric) for name in ("newton", "adagrad", "s-adagrad"))


def inverse_metric(setup, energy, ridge, escaped):
    """p(λ) = 1/h(λ); the pseudo-inverse's 0 where the metric vanishes, NaN for a code that is none."""
    if setup.geometry == NEWTON:
        metric = _newton(energy, ridge, escaped)
    elif setup.geometry == ADAGRAD:
        metric = _adagrad(energy, ridge, escaped)
    elif setup.geometry == S_ADAGRAD:
        metric = _s_adagrad(energy, ridge, escaped)
    else:
        return math.nan  # no learner survives it: the round is refused
    return 1.0 / metric if metric > 0.0 else 0.0


def inverse_metrics(setup, energies, ridge, escaped):
    """p(λ) for four energies at a time, where the ridge keeps the metric from vanishing.

    A second form of three formulas: lane by lane would cost Oja's learner a tenth of its time. Tests compare both.
    """
    ridges = spread(ridge, 4)
    if setup.geometry == NEWTON:
        metrics = plus(ridges, energies)
    elif setup.geometry == ADAGRAD:
        metrics = plus(ridges, root(energies))
    elif setup.geometry == S_ADAGRAD:
        metrics = root(plus(spread(ridge + escaped, 4), energies))
    else:
        metrics = spread(math.nan, 4)
    return quotient(spread(1.0, 4), metrics)


def _make_inverse_metric(h: Any) -> Function:
    def inverse(setup, energy, ridge, escaped):
        metric = h(energy, ridge, escaped)
        return 1.0 / metric if metric > 0.0 else 0.0

    return inverse


def _make_inverse_metrics(h: Any) -> Function:
    def inverses(setup, energies, ridge, escaped):
        first = h(lane(energies, 0), ridge, escaped)
        second = h(lane(energies, 1), ridge, escaped)
        third = h(lane(energies, 2), ridge, escaped)
        fourth = h(lane(energies, 3), ridge, escaped)
        return quotient(spread(1.0, 4), joined(first, second, third, fourth))

    return inverses


chosen_by_geometry(inverse_metric, _make_inverse_metric)
chosen_by_geometry(inverse_metrics, _make_inverse_metrics, forceinline=True)


@inner
def spectral_weight(setup, value, ridge, escaped):
    """(p(λ) − p(0))/λ: the weight of an eigenvector u of K = SSᵀ in P = p(0)·I + Sᵀ(Σ weight·uuᵀ)S.

    Zero for a direction without energy.
    """
    if value <= 0.0:
        return 0.0
    flat = inverse_metric(setup, 0.0, ridge, escaped)
    return (inverse_metric(setup, value, ridge, escaped) - flat) / value
