"""The fixed numbers of a learner, as compiled loops read them, and the vocabulary they are coded in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from onsketch.core.errors import OptionError
from onsketch.core.geometry import geometry_of
from onsketch.core.losses import Form, loss_of
from onsketch.core.spectral_step import setup_class
from onsketch.core.tolerances import LARGEST, RESOLUTION, STEEPEST
from onsketch.learners.methods import FIRST_RIDGE, Method, ridge_share
from onsketch.learners.options import Options


class Summaries(NamedTuple):
    """Codes of what a sketch absorbs."""

    gradient: int
    """g"""
    scaled_gradient: int
    """√(σ+η_t)·g"""
    data: int
    """x"""
    curvature: int
    """√ℓ''·x"""


SUMMARY = Summaries(*range(4))


class Schedules(NamedTuple):
    """Codes of the curvature schedules η_t."""

    constant: int
    """0"""
    inverse: int
    """1/t"""
    inverse_root: int
    """1/√t"""


SCHEDULE = Schedules(*range(3))

SCHEDULES = {"none": SCHEDULE.constant, "1/t": SCHEDULE.inverse, "1/sqrt(t)": SCHEDULE.inverse_root}


class Setup(NamedTuple):
    """Constants of a learner, derived from its options."""

    loss: Form
    geometry: int
    rule: int
    """How frequent directions shrinks (see core/shrinking.py)."""
    summary: int
    schedule: int
    dual: bool
    diagonal: bool
    diagonal_first: bool
    """True if the diagonal absorbs a row's own gradient before the step."""
    average: bool
    size: int
    """m, the sketch size."""
    capacity: int
    """Rows held before a shrink."""
    fraction: float
    """β of parameterised frequent directions."""
    step: float
    clip: float
    """C where predictions are clipped before they are made, else infinity."""
    reach: float
    """C where a step stops at the clip instead (``projection="after"``), else infinity."""
    sigma: float
    gain: float
    """Γ of Oja's algorithm; 0: 1/t."""
    seed: int
    largest: float
    """Bound of numbers stored per feature: their type can hold it, and its square is finite in float64."""
    steepest: float
    """Bound on gradients whose squares are summed up per feature."""
    safe: float
    """Rounds below this need no undoing."""
    rounding: float
    """A few rounding errors of the dtype of numbers stored per feature."""
    resolution: float
    """The share of the largest energy below which the rows of a sketch cannot tell an energy from 0."""
    ridge: float
    """Where the ridge starts."""
    share: float
    """c: the ridge is raised to keep up with c times the mean squared length of the rows; 0 when it was given."""
    forget: float
    """λ: factor of the metric from one round to the next."""
    implicit: bool
    """True for implicit steps: the slope is taken at the end of the step."""
    whole: bool
    """True if a step uses the metric after absorbing the row in full, as frequent directions do."""


def fisher_weight(setup: Setup, start: int, stop: int) -> float:
    """Return the weight of a unit of absorbed energy in a merge: the loss's curvature over the energy, times the step.

    A gradient row absorbs (σ+η_t)·ggᵀ while the curvature of a likelihood is E ggᵀ (Fisher). In a direction of
    curvature h, rounds ``w ← w − A⁻¹g`` with ``A = a + σht`` leave ``(1 + σht/a)^{-1/σ}`` of the way to the optimum,
    about as much as a precision of ``a + ht``, ``a/(a + ht)``. So the gained energy counts 1/σ times.

    Args:
        setup: setup of the learner.
        start: number of rounds of the base.
        stop: number of rounds of the learner, or of the merged learners.
    """
    if setup.summary != SUMMARY.scaled_gradient or stop == start:
        return setup.step
    extra = 0.0
    if setup.schedule == SCHEDULE.inverse:
        extra = math.log((stop + 0.5) / (start + 0.5))
    elif setup.schedule == SCHEDULE.inverse_root:
        extra = 2.0 * (math.sqrt(stop + 0.5) - math.sqrt(start + 0.5))
    return setup.step * (stop - start) / (setup.sigma * (stop - start) + extra)


def projects_after(method: Method, options: Options) -> bool:
    """Return True if a row is projected onto the clip after its step (luo2019) instead of before it (luo2016).

    The default is "after" for robust frequent directions without a ridge, as in their paper. It is better for wide rows
    (errors on reuters 51 → 3 %, hiva 48 → 6, DNA 49 → 10) and worse on some sets of few features (cod-rna 10 → 18).
    With a ridge, and for the other sketches, "before" is better more often.
    """
    if options.projection is None:
        mirror = options.update != "dual" and not options.diagonal_first
        return options.ridge == 0.0 and method.kind.robust and mirror
    return options.projection == "after"


def make_setup(method: Method, options: Options, *, capacity: int = 0) -> Setup:
    """The numbers of a learner of this method with these options; refuses combinations that mean nothing."""
    loss = loss_of(options)
    geometry = geometry_of(method.geometry)
    newton = geometry.newton
    summary = {
        "gradient": SUMMARY.scaled_gradient if newton else SUMMARY.gradient,
        "data": SUMMARY.data,
        "curvature": SUMMARY.curvature,
    }[options.summary]
    after = projects_after(method, options)
    _refuse(
        options,
        (summary == SUMMARY.curvature and not loss.smooth,
         f"summary='curvature': loss={loss.name!r} has no curvature; leave summary out."),
        (options.ridge == 0.0 and not (newton and method.kind.singular),
         f"ridge=0: {method.name} needs a ridge above 0; only ons and rfd-son do without."),
        (options.ridge == 0.0 and method.kind.sized and options.sketch_size == 0,
         "ridge=0 with sketch_size=0 leaves no metric at all; give a ridge or a sketch size."),
        (summary != SUMMARY.scaled_gradient and (options.curvature, options.curvature_schedule) != (None, None),
         f"summary={options.summary!r} does not use curvature or curvature_schedule; leave them out."),
        *_of_forgetting(method, options),
        (options.step == "implicit" and options.update == "dual",
         f"{method.name}: step='implicit' does not go with update='dual'."),
        *_of_diagonal(method, options),
        (options.oja_block > 1 and options.ridge is None,
         f"{method.name}: oja_block={options.oja_block} needs a ridge that is given."),
        (options.oja_block > 1 and options.step == "implicit",
         f"{method.name}: oja_block above 1 takes no step='implicit', but explicit steps."),
        (after and options.update == "dual",
         "projection='after' limits the step of a row; update='dual' has none, leave one of them out."),
    )  # fmt: skip
    assert options.step_size is not None
    clip = options.clip if isinstance(options.clip, float) else None
    sigma, schedule = 0.0, SCHEDULE.constant
    if summary == SUMMARY.scaled_gradient:
        sigma = loss.exp_concavity(clip) if options.curvature is None else options.curvature
        schedule = SCHEDULES[options.curvature_schedule or ("1/t" if options.ridge == 0.0 else "none")]
        if sigma == 0.0 and schedule == SCHEDULE.constant:
            raise OptionError(
                f"{method.name}: with curvature 0 (loss={loss.name!r}) and no schedule the sketch would absorb "
                "nothing; give curvature_schedule='1/sqrt(t)' or '1/t', or a curvature.",
                loss=loss.name,
                curvature_schedule="1/sqrt(t)",
            )
    numbers: Setup = setup_class(Setup, geometry)(
        loss=loss.form,
        geometry=geometry.code,
        rule=method.kind.rule or 0,
        summary=summary,
        schedule=schedule,
        dual=options.update == "dual",
        diagonal=options.diagonal,
        diagonal_first=options.diagonal_first,
        average=options.average,
        size=options.sketch_size,
        capacity=capacity,
        fraction=options.shrink_fraction,
        step=options.step_size,
        clip=math.inf if clip is None or after else clip,
        reach=clip if clip is not None and after else math.inf,
        sigma=sigma,
        gain=options.oja_step or 0.0,
        seed=options.seed,
        largest=LARGEST if options.dtype == "float64" else 1e30,
        steepest=STEEPEST[options.dtype],
        safe=1e25 if options.dtype == "float64" else 1e5,
        rounding=1e-15 if options.dtype == "float64" else 5e-7,
        resolution=RESOLUTION[options.dtype],
        ridge=FIRST_RIDGE if options.ridge is None else options.ridge,
        share=ridge_share(method, options.sketch_size) if newton and options.ridge is None else 0.0,
        forget=float(options.forget),
        implicit=options.step == "implicit",
        whole=method.kind.whole_row,
    )
    return numbers


Cases = Iterable[tuple[object, str]]
"""Pairs of a condition that is refused and its message."""


def _refuse(options: Options, *cases: tuple[object, str]) -> None:
    """Refuse the first case that holds; the error carries the options that it names."""
    for holds, what in cases:
        if holds:
            raise OptionError(what, **{**vars(options), "diagonal": (True, False)})


def _of_diagonal(method: Method, options: Options) -> Cases:
    """Yield options that cannot be combined with ``diagonal_first``."""
    for strange, what in (
        (not options.diagonal, "is a form of diagonal=True; give that, too"),
        (options.projection is not None, "clips predictions plainly; leave projection out"),
        (options.step == "implicit", "needs the gradient at the prediction; leave step='implicit' out"),
    ):
        yield options.diagonal_first and strange, f"{method.name}: diagonal_first=True {what}."


def _of_forgetting(method: Method, options: Options) -> Cases:
    """Yield options that cannot be combined with a decaying metric."""
    for strange, what in (
        (options.update == "dual", "update='dual', whose sum of gradients would have to fade, too"),
        (options.average, "average, which remembers every iterate alike"),
        (options.l1 or options.l2 or options.box, "l1, l2 or box"),
        (method.kind.sized and options.sketch_size == 0, "sketch_size=0, which keeps nothing to forget"),
    ):
        forget = float(options.forget)
        yield forget < 1.0 and strange, f"{method.name}: forget={forget:g} does not go with {what}."
