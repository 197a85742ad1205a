"""The options of a learner: their names, defaults and meaning, and the checks that need no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict

from onsketch.core.errors import OptionError

LOSS_NAMES = ("squared", "absolute", "logistic", "hinge", "squared_hinge")
SUMMARIES = ("gradient", "data", "curvature")
UPDATES = ("mirror", "dual")
SCHEDULE_NAMES = ("none", "1/t", "1/sqrt(t)")


class LearnerOptions(TypedDict, total=False):
    """Keyword arguments of :func:`onsketch.learner`; see :class:`Options` for their meaning."""

    n_features: int | None
    loss: str
    sketch_size: int
    ridge: float | None
    step_size: float | None
    clip: float | str | None
    curvature: float | None
    curvature_schedule: str | None
    summary: str
    update: str
    doubling: bool
    diagonal: bool
    shrink_fraction: float
    l1: float
    l2: float
    box: tuple[float, float] | None
    fit_intercept: bool
    average: bool
    forget: float
    betas: tuple[float, float]
    kernel: str | Callable[..., Any]
    gamma: float | None
    degree: int
    coef0: float
    accuracy: float
    budget: float | None
    floor: float
    max_points: int | None
    restart: bool
    seed: int
    dtype: str


@dataclass(frozen=True)
class Options:
    """Every option of a linear learner, with its default."""

    n_features: int | None = None
    """Width of the rows; left out, the learner grows with the stream."""
    loss: str = "squared"
    sketch_size: int = 20
    """m in SON, τ in Ada-*; 0 keeps no sketch."""
    ridge: float | None = None
    """α in SON, δ or σ in Ada-*; the method's default when left out: for sketched Newton methods 1, or a
    share of the rows' mean squared length so far where that is more (``methods.ridge_share``)."""
    step_size: float | None = None
    """η; multiplies Newton steps too."""
    clip: float | str | None = "default"
    """C: predictions are kept within ±C by an oblique projection; None for no bound."""
    curvature: float | None = None
    """σ; from the loss and the clip when left out."""
    curvature_schedule: str | None = None
    """η_t: "none", "1/t" or "1/sqrt(t)"; left out, "1/t" at ridge 0 and "none" otherwise."""
    summary: str = "gradient"
    """What the sketch absorbs: "gradient", "data" or "curvature"."""
    update: str = "mirror"
    """"mirror" descent or "dual" averaging."""
    doubling: bool = True
    """Fast frequent directions, with 2m rows between shrinks."""
    diagonal: bool = False
    """The diagonal adaptation of luo2016."""
    shrink_fraction: float = 0.2
    """β of parameterised frequent directions."""
    l1: float = 0.0
    l2: float = 0.0
    box: tuple[float, float] | None = None
    """Composite terms: l1·|w|₁ + l2/2·|w|² and lower ≤ w ≤ upper."""
    fit_intercept: bool = False
    average: bool = False
    """Predict with the mean of the iterates."""
    forget: float = 1.0
    """λ: how much of the metric is left from one round to the next; below 1 the learner follows a drifting stream."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates."""
    kernel: str | Callable[..., Any] = "rbf"
    """"linear", "rbf", "laplacian", "polynomial", or a function of two arrays of rows (see onsketch.kernel.Kernel)."""
    gamma: float | None = None
    """γ of the kernel; left out, 1 over the number of features of the first rows."""
    degree: int = 3
    coef0: float = 1.0
    """The polynomial kernel is (γ x·y + coef0)^degree."""
    accuracy: float = 0.5
    """ε of KORS, the dictionary's sampling."""
    budget: float | None = None
    """β of KORS: rows are kept with probability β·leverage; a practical 1 when left out (theory asks for more)."""
    floor: float = 0.0
    """γ of Sketched-KONS: least probability with which a row is kept."""
    max_points: int | None = None
    """Most rows kept by methods with a bound on them; None for no bound."""
    restart: bool = False
    """PROS-N-KONS begins anew whenever its dictionary grows, as in the paper, instead of carrying over."""
    seed: int = 0
    dtype: str = "float64"
    """Of what is kept per feature; everything of the sketch's size is float64."""


def _number(name: str, value: Any, low: float, high: float = math.inf, *, open_low: bool = False) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise OptionError(f"{name}={value!r}: expected a number.") from None
    inside = low < number if open_low else low <= number
    if not (inside and number <= high and math.isfinite(number)):
        bracket = "(" if open_low else "["
        raise OptionError(f"{name}={value!r}: expected a number in {bracket}{low:g}, {high:g}].")
    return number


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise OptionError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}.")
    return str(value)


def _count(name: str, value: Any, low: int, high: int = 2**31 - 1) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or not low <= int(value) <= high:
        raise OptionError(f"{name}={value!r}: expected a whole number from {low} to {high}.")
    return int(value)


def _flag(name: str, value: Any) -> bool:
    if value not in (True, False):
        raise OptionError(f"{name}={value!r}: expected True or False.")
    return bool(value)


def _box(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise OptionError(f"box={value!r}: expected a pair (lower, upper).") from None
    if not low <= high or math.isnan(low) or math.isnan(high):
        raise OptionError(f"box={value!r}: the lower bound must not exceed the upper one.")
    return low, high


def _betas(value: Any) -> tuple[float, float]:
    try:
        first, second = value
    except (TypeError, ValueError):
        raise OptionError(f"betas={value!r}: expected a pair of numbers in [0, 1).") from None
    top = math.nextafter(1.0, 0.0)
    return _number("betas", first, 0.0, top), _number("betas", second, 0.0, top)


def _checked(name: str, value: Any) -> Any:
    """One option's value, of the right type and range, or an OptionError that says what was expected."""
    if value is None and name in (
        "n_features",
        "ridge",
        "step_size",
        "clip",
        "curvature",
        "curvature_schedule",
        "gamma",
        "budget",
        "max_points",
    ):
        return None
    match name:
        case "n_features":
            return _count(name, value, 1, 2**62)
        case "sketch_size":
            return _count(name, value, 0)
        case "seed":
            return _count(name, value, 0, 2**63 - 1)
        case "loss":
            return _choice(name, value, LOSS_NAMES)
        case "summary":
            return _choice(name, value, SUMMARIES)
        case "update":
            return _choice(name, value, UPDATES)
        case "curvature_schedule":
            return _choice(name, value, SCHEDULE_NAMES)
        case "dtype":
            return _choice(name, getattr(value, "__name__", None) or str(value), ("float64", "float32"))
        case "clip" if value == "default":
            return value
        case "clip" | "step_size":
            return _number(name, value, 0.0, open_low=True)
        case "kernel":
            return value if callable(value) else _choice(name, value, ("linear", "rbf", "laplacian", "polynomial"))
        case "gamma" | "budget":
            return _number(name, value, 0.0, open_low=True)
        case "degree":
            return _count(name, value, 1, 100)
        case "max_points":
            return _count(name, value, 1)
        case "accuracy":
            return _number(name, value, 0.0, math.nextafter(1.0, 0.0), open_low=True)
        case "coef0":
            return _number(name, value, 0.0)
        case "floor":
            return _number(name, value, 0.0, 1.0)
        case "forget":
            return _number(name, value, 0.0, 1.0, open_low=True)
        case "shrink_fraction":
            return _number(name, value, 0.0, 1.0, open_low=True)
        case "ridge" | "curvature" | "l1" | "l2":
            return _number(name, value, 0.0)
        case "box":
            return _box(value)
        case "betas":
            return _betas(value)
        case _:
            return _flag(name, value)


def resolve(method: str, concerns: frozenset[str], defaults: Mapping[str, Any], given: Mapping[str, Any]) -> Options:
    """The options of a learner: what was given over the method's defaults over the general ones.

    An option that does not concern the method is an error, unless it is given its general default.
    """
    general = Options()
    known = {field.name for field in fields(Options)}
    for name, value in given.items():
        if name not in known:
            raise OptionError(f"{method}: there is no option {name!r}; the options are {', '.join(sorted(known))}.")
        if name not in concerns and value != getattr(general, name):
            raise OptionError(
                f"{method}: the option {name} (given as {value!r}) does not concern this method; "
                f"its options are {', '.join(sorted(concerns))}."
            )
    relevant = {name: value for name, value in given.items() if name in concerns}
    chosen = {**defaults, **{name: v for name, v in relevant.items() if not (v is None and name in defaults)}}
    if relevant.get("clip", "default") is None:
        chosen["clip"] = None
    if chosen.get("clip") == "default":
        chosen["clip"] = defaults.get("clip")
    return replace(general, **{name: _checked(name, value) for name, value in chosen.items()})
