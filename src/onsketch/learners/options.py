"""The options of a learner, each declared once: type, default, check, description, and methods that use it.

The keyword arguments of ``onsketch.learner`` and the estimators (``keywords.py``, written by ``tools/keywords.py``),
the program's options and the tables of the documentation derive from this declaration. To add an option, add an entry
here and run the tool; a test checks that the file is current.
"""

from __future__ import annotations

import dataclasses
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from onsketch.core.errors import OptionError, suggestion
from onsketch.learners.checks import Check, Choice, Either, Function, Number, Pair, Whole, flag

if TYPE_CHECKING:
    from onsketch.learners.methods import Method

LOSS_NAMES = (
    "squared", "absolute", "logistic", "hinge", "squared_hinge", "quantile", "poisson", "huber", "epsilon_insensitive"
)  # fmt: skip
SAME_LOSSES = {"log_loss": "logistic", "squared_error": "squared", "absolute_error": "absolute"}
"""scikit-learn's names of losses, accepted everywhere, and the names used here."""
LEVELS = {"quantile": ("quantile",), "epsilon": ("huber", "epsilon_insensitive")}
"""Options that give a loss its level, and the losses that each concerns."""
SUMMARIES = ("gradient", "data", "curvature")
UPDATES = ("mirror", "dual")
PROJECTIONS = ("before", "after")
SCALINGS = ("none", "magnitude")
STEPS = ("explicit", "implicit")
SCHEDULE_NAMES = ("none", "1/t", "1/sqrt(t)")

Documented = TypeVar("Documented")

_BELOW_ONE = math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class Option:
    """Declaration of an option, in addition to its name and type."""

    default: Any
    """Default value if neither the user nor the method gives one; None leaves it to the learner."""
    check: Check
    sentence: str
    concerns: Callable[[Method], bool]
    shown: str
    """The default in words, for the program and the documentation."""
    switch: str
    """Name of the program's option, if it differs from --its-name."""
    words: str
    """Type of other accepted values, such as a special word."""


def every(method: Method) -> bool:
    """The option concerns every method."""
    return True


def _option(
    default: Any,
    check: Check,
    sentence: str,
    concerns: Callable[[Method], bool] = every,
    *,
    shown: str | None = None,
    switch: str = "",
    words: str = "",
) -> Any:
    if shown is None:
        shown = " ".join(f"{part:g}" for part in default) if isinstance(default, tuple) else str(default)
    return dataclasses.field(
        default=default, metadata={"option": Option(default, check, sentence, concerns, shown, switch, words)}
    )


@dataclass(frozen=True)
class Options:
    """Every option of a learner, as resolved: see ``DECLARED`` for what each means."""

    n_features: int | None = _option(
        None, Whole(1, 2**62), "Width of the rows; rows of another width are errors.", shown="as they come"
    )
    loss: str = _option("squared", Choice(LOSS_NAMES), f"{', '.join(LOSS_NAMES[:-1])} or {LOSS_NAMES[-1]}.")
    quantile: float = _option(0.5, Number(0.0, _BELOW_ONE, above=True), "Level of loss quantile; 0.5 is the median.")
    epsilon: float = _option(
        0.1,
        Number(above=True),
        "ε of the losses huber and epsilon_insensitive, in the unit of the labels.",
    )
    sketch_size: int = _option(  # or "auto", which only build.py and self_sizing.py see
        20,
        Either("auto", Whole(0)),
        "Rows of the sketch: m in SON, τ in Ada-*; 0 keeps no sketch, auto lets frequent directions choose.",
        lambda m: (m.steps and m.kind.sized) or m.mixture,
        words="str",
    )
    ridge: float | None = _option(
        None,
        Number(),
        "Start of the metric: α in SON and KONS, δ or σ in Ada-*.",
        lambda m: not (m.mixture or (m.geometry == "gradient" and (m.steps or m.kernel))),
        shown="the method's",
    )
    step_size: float | None = _option(
        None,
        Number(above=True),
        "Factor of each step, η; it multiplies Newton steps too.",
        lambda m: m.moves.step_size is not None,
        shown="the method's",
    )
    clip: float | str | None = _option(
        "default",
        Either("default", Either("labels", Number(1e-100))),
        "C: predictions are kept within ±C by an oblique projection; None: no bound; auto: the range of labels so far.",
        shown="the method's",
    )
    projection: str | None = _option(
        None,
        Choice(PROJECTIONS),
        "Project onto the clip before a prediction (luo2016), or after a step (luo2019, Algorithm 6).",
        lambda m: m.newton and m.steps and m.sketched,
        shown="before; after for rfd-son at ridge 0",
    )
    curvature: float | None = _option(
        None, Number(), "σ of Newton methods.", lambda m: m.newton, shown="by the loss and the clip"
    )
    curvature_schedule: str | None = _option(
        None,
        Choice(SCHEDULE_NAMES),
        "η_t, added to the curvature: none, 1/t or 1/sqrt(t).",
        lambda m: m.newton,
        shown="none; 1/t at ridge 0",
    )
    summary: str = _option(
        "gradient",
        Choice(SUMMARIES),
        "Rows that the sketch absorbs: gradient, data or curvature.",
        lambda m: (m.steps and m.geometry != "gradient") or (m.kernel and m.newton),
    )
    update: str = _option("mirror", Choice(UPDATES), "mirror (descent) or dual (averaging).", lambda m: m.steps)
    doubling: bool = _option(
        True,
        flag,
        "Fast frequent directions, with 2m rows between shrinks.",
        lambda m: m.steps and m.kind.shrinks,
        shown="True; False for AdaGrad geometry",
    )
    diagonal: bool = _option(
        False, flag, "Adapt to the scale of each feature first, as luo2016 does.", lambda m: m.steps and m.sketched
    )
    diagonal_first: bool = _option(
        False,
        flag,
        "With diagonal: absorb a row's gradient before the step, and clip predictions without projection, as in VW.",
        lambda m: m.steps and m.sketched,
    )
    oja_step: float | None = _option(
        None,
        Number(above=True),
        "Γ of Oja's algorithm, the same in every round.",
        lambda m: m.steps and "oja_step" in m.kind.options,
        shown="1/t",
    )
    oja_block: int = _option(
        1,
        Whole(1),
        "Rows between updates of Oja's directions (m in luo2016); above 1, a row costs m times the features.",
        lambda m: m.steps and "oja_block" in m.kind.options,
    )
    shrink_fraction: float = _option(
        0.2,
        Number(0.0, 1.0, above=True),
        "β of parameterised frequent directions.",
        lambda m: m.steps and "shrink_fraction" in m.kind.options,
    )
    l1: float = _option(0.0, Number(), "Weight of |w|₁.", lambda m: m.composite or m.moves.sparse_terms)
    l2: float = _option(
        0.0,
        Number(),
        "Weight of |w|²/2.",
        lambda m: m.composite or m.moves.sparse_terms or (m.kernel and m.geometry == "gradient"),
    )
    box: tuple[float, float] | None = _option(
        None, Pair(ordered=True), "Lower and upper bound of every weight.", lambda m: m.composite, shown="none"
    )
    scaling: str = _option(
        "none",
        Choice(SCALINGS),
        "none, or magnitude: put features, rows and numbers to learn in scales and centres of their own.",
        lambda m: not m.mixture,
    )
    step: str = _option(
        "explicit",
        Choice(STEPS),
        "explicit, or implicit: use the slope at the end of the step, so that no step passes the label.",
        lambda m: m.steps and not m.square,
    )
    fit_intercept: bool = _option(False, flag, "A constant feature.", switch="--intercept/--no-intercept")
    average: bool = _option(False, flag, "Predict with the mean of the iterates.", lambda m: m.moves.averages)
    forget: float | str = _option(
        1.0,
        Either("auto", Number(0.0, 1.0, above=True)),
        "λ: weight of the past, multiplied from row to row; below 1 the learner follows drift; auto accepts auto.",
        lambda m: (
            m.mixture or (m.steps and m.geometry != "gradient" and (not m.sketched or (m.newton and m.kind.shrinks)))
        ),
        shown="1: all of it",
    )
    betas: tuple[float, float] = _option(
        (0.9, 0.999), Pair(0.0, _BELOW_ONE), "Adam's decay rates.", lambda m: m.moves.moments
    )
    kernel: str | Callable[..., Any] = _option(  # noqa: RUF009
        "rbf",
        Function(Choice(("linear", "rbf", "laplacian", "polynomial"))),
        "linear, rbf, laplacian or polynomial; in Python also a function of two arrays of rows.",
        lambda m: m.kernel,
    )
    gamma: float | str | None = _option(
        None,
        Either("scale", Number(above=True)),
        "γ of the kernel; scale: 1 over the number of features times the variance of the first rows' values.",
        lambda m: m.kernel,
        shown="1 over the features of the first rows",
    )
    degree: int = _option(3, Whole(1, 100), "Of the polynomial kernel (γ x·y + coef0)^degree.", lambda m: m.kernel)
    coef0: float = _option(1.0, Number(), "Constant of that kernel.", lambda m: m.kernel)
    accuracy: float = _option(
        0.5, Number(0.0, _BELOW_ONE, above=True), "ε of KORS, the dictionary's sampling.", lambda m: m.moves.samples
    )
    budget: float | None = _option(
        None,
        Number(above=True),
        "β of KORS: rows are kept with probability β·leverage.",
        lambda m: m.moves.samples,
        shown="a practical 1; theory asks for more",
    )
    floor: float = _option(
        0.0,
        Number(0.0, 1.0),
        "Least probability with which a row is kept: γ of Sketched-KONS.",
        lambda m: m.moves.samples,
    )
    max_points: int | None = _option(
        None,
        Whole(1),
        "Most rows that are kept.",
        lambda m: m.moves.capped,
        shown="no bound, 500 for budget-kernel-ogd",
    )
    restart: bool = _option(
        False,
        flag,
        "Restart whenever the dictionary grows, as published, instead of carrying weights over.",
        lambda m: m.moves.projects,
    )
    seed: int = _option(0, Whole(0, 2**63 - 1), "Seed of random sketches.")
    dtype: str = _option(
        "float64",
        Choice(("float64", "float32")),
        "float64 or float32, for numbers stored per feature.",
        lambda m: not m.kernel,
    )


DECLARED: Mapping[str, Option] = MappingProxyType({f.name: f.metadata["option"] for f in dataclasses.fields(Options)})
"""Every option by name."""


def documents_options(documented: Documented) -> Documented:
    """List every option with its sentence and default in a docstring, below the entry ``**options:``.

    Options that the docstring describes by itself are left out, and those that an estimator (a class) does not take.
    """
    text = documented.__doc__ or ""
    entry = re.search(r"^( *)\*\*options:.*\n(?:\1 +.*\n)*", text, re.MULTILINE)
    if entry is not None:
        indent = f"{entry[1]}    "
        lines = [
            textwrap.fill(
                f"{indent}{name}: {option.sentence} Default: {option.shown}.", 100, subsequent_indent=f"{indent}    "
            )
            for name, option in DECLARED.items()
            if not (isinstance(documented, type) and name in OF_THE_LEARNER_ALONE)
            and not re.search(rf"^ *{name}:", text, re.MULTILINE)
        ]
        documented.__doc__ = "\n".join([text[: entry.end() - 1], *lines, text[entry.end() :]])
    return documented


OF_THE_LEARNER_ALONE = ("n_features", "loss", "fit_intercept", "seed")
"""Options that an estimator replaces by other arguments, or derives from the rows."""


@lru_cache(maxsize=256)
def concerning(method: Method) -> frozenset[str]:
    """The options that mean something to this method."""
    return frozenset(name for name, option in DECLARED.items() if option.concerns(method))


def own_loss(loss: Any) -> Any:
    """Return a loss by the name that it has here.

    >>> own_loss("log_loss"), own_loss("hinge")
    ('logistic', 'hinge')
    """
    return SAME_LOSSES.get(loss, loss) if isinstance(loss, str) else loss


def given_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options given: None leaves an option to the method, except for ``clip``, where it means no bound."""
    return {name: value for name, value in given.items() if value is not None or name == "clip"}


def from_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they were before JSON, which has lists where options have tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def _strange(name: str, value: Any, method: str, concerns: frozenset[str]) -> OptionError | None:
    """Return the error for an option that a method does not have, whatever its value; None if it has it."""
    if name not in DECLARED:
        known = f"the options are {', '.join(sorted(DECLARED))}.{suggestion(name, DECLARED)}"
        return OptionError(f"{method}: there is no option {name!r}; {known}")
    if name in concerns or value == DECLARED[name].default:
        return None
    return OptionError(
        f"{method}: the option {name} (given as {value!r}) does not concern this method; "
        f"its options are {', '.join(sorted(concerns))}."
    )


def refuse_own_size(sketch_size: Any) -> None:
    """Refuse ``sketch_size="auto"`` where the sketch cannot choose its size."""
    if sketch_size == "auto":
        raise OptionError(
            "auto: sketch_size='auto' is for frequent directions by name, such as rfd-son; give a number.",
            sketch_size="auto",
        )


def resolve(method: str, concerns: frozenset[str], defaults: Mapping[str, Any], given: Mapping[str, Any]) -> Options:
    """The options of a learner: what was given over the method's defaults over the general ones.

    An option that does not concern the method is an error, unless it is given its general default.
    """
    for name, value in given.items():
        if value is None and name in DECLARED:
            continue
        error = _strange(name, value, method, concerns)
        if error is not None:
            raise error
    relevant = {name: value for name, value in given_options(given).items() if name in concerns}
    chosen = {**defaults, **relevant}
    if "loss" in chosen:
        chosen["loss"] = own_loss(chosen["loss"])
    if chosen.get("clip") == math.inf:
        chosen["clip"] = None
    if chosen.get("clip") == "default":
        chosen["clip"] = defaults.get("clip")
    checked: dict[str, Any] = {
        name: None if value is None else DECLARED[name].check(name, value) for name, value in chosen.items()
    }
    for level, names in LEVELS.items():
        known = DECLARED[level].default
        if checked.get("loss", "squared") not in names and checked.get(level, known) != known:
            raise OptionError(
                f"{level}={checked[level]:g} is the level of {' and '.join(f'loss={name!r}' for name in names)}, and "
                "concerns no other.",
                **{level: checked[level], "loss": names},
            )
    if checked.get("forget") == "auto" and method != "auto":
        raise OptionError(f'{method}: forget="auto" (several rates, mixed) is for auto; give a number.', forget="auto")
    if checked.get("clip") == "labels" and method != "auto":
        raise OptionError(
            f'{method}: clip="labels" (within the labels seen) is for auto; give a number or None.',
            clip="labels",
        )
    return dataclasses.replace(Options(), **checked)
