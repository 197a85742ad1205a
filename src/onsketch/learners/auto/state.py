"""What the tuning-free learner keeps: one or two packed rows per feature, and a few small arrays.

Every feature has a *light* row,

    [ w of the experts 0 … 6 | mean | E of the experts 3 … 6 | scale | count | log scale | – ]

in float32, without the last two columns, while it is *cold*: most features of a heavy-tailed stream are met once or
twice. When it has come a few times it is *warm*: its light row is in the learner's own type, and at the same place of
the *heavy* table of ``learners/sketched/packed.py`` is what the sketch knows of it:

    [ head 0 | epoch | place in the buffer | head 1 | head 2 | s_1 … s_k ]

The weights of the first three experts are the sum of a light part, which steps add to, and a heavy head, into which
shrinks fold ``Sᵀa``. Head 2 is moved along as if it were a row of the sketch. The sketch's rows since the last shrink
are in a buffer, in which only the features met since then have a place.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onsketch.core.losses import Form
from onsketch.core.state import Array, grow, new
from onsketch.core.tolerances import LARGEST
from onsketch.jit.vectors import padded
from onsketch.learners.auto.mixing import EXPERTS, PRIORS
from onsketch.learners.sketched.packed import COLUMN

Floats = NDArray[np.float64]

NEWTON, SECOND_NEWTON, ROOT, OWN_ADAGRAD, LAPLACE, ADAGRAD, BOLD_ADAGRAD = range(EXPERTS)
"""The experts, and the columns of their weights in a light row."""
SKETCHED = 3
"""The first so many experts step through the sketch; the others have a second number per feature."""


class LightColumns(NamedTuple):
    """More columns of a light row."""

    log: int
    """the logarithm of the scale"""
    energy: int
    """the first of the energies and variances of the experts from SKETCHED on"""
    scale: int
    mean: int
    """the mean magnitude"""
    met: int
    """over so many values"""


LIGHT = LightColumns(log=14, energy=8, scale=12, mean=7, met=13)
WIDTH, COLD_WIDTH = 16, 14
"""Columns of a light row, and of one in float32."""
COLD_LIMIT = 1e37
"""What is written in float32 is not larger."""

IN_BUFFER = COLUMN.diagonal
"""Column of a heavy row: its place in the buffer, counted from 1 (0: none)."""
THIRD_HEAD = COLUMN.sketch
FIRST_ROW = COLUMN.sketch + 1
"""Columns of a heavy row: the third head, and from FIRST_ROW on the sketch."""
HEADS = (COLUMN.head, COLUMN.sum, THIRD_HEAD)


class Tallies(NamedTuple):
    """Places in ``counts``."""

    rows: int
    """rows of S"""
    constant: int
    """the slot of the constant feature (−1: none yet)"""
    seen: int
    """light rows in use"""
    regime: int
    """how features are scaled (``scaling.py``)"""
    turned: int
    """rows of S that the last shrink has made orthogonal"""
    full: int
    """whether learning stopped for want of room; this row needs tables of so many rows:"""
    more_warm: int
    more_cold: int
    more_buffer: int
    warm: int
    cold: int
    """the last place in use; the first is 1"""
    freed: int
    """a cold place that is free, in whose row the next one is written (0: none)"""


TALLY = Tallies(*range(12))


class Figures(NamedTuple):
    """Places in ``numbers``."""

    escaped: int
    """Σρ shrunk away"""
    norm: int
    """the typical squared length of rows as the sketch sees them (``scaling.typical``), in use"""
    wide_norm: int
    """the same as the wide experts see them"""
    own_length: int
    """as it runs, in own scales"""
    common_length: int
    """as it runs, in the common scale"""
    common: int
    """the logarithm of the common scale"""
    logs: int
    """the mean of the logarithms of scales"""
    squared_logs: int
    """the mean of their squares"""
    values: int
    """over so many values"""
    centre: int
    """what is taken off labels"""
    mean_label: int
    """the mean of the rest"""
    unit: int
    """its mean deviation"""
    low: int
    high: int
    """the range of labels"""
    weight: int
    """Σ sample weights"""
    fade: int
    """what forgetting has left of the sketch's rows and ridge, as a factor of A, since they were written"""
    thin: int
    """likewise of AdaGrad's energies"""
    credit: int
    """what rows that were not sketched would have told"""
    heaviest: int
    """1, doubled by every row whose sample weight is larger"""
    least: int
    """ridges are no less: what rows in float32 cannot tell from 0 (0: they are in float64)"""


FIGURE = Figures(*range(20))

_FAR = float(np.finfo(np.float64).max)
"""The range of labels starts here and at its negative: no label has been met."""


class Settings(NamedTuple):
    """What never changes while the learner learns."""

    loss: Form
    size: int
    """m; 0 and 1 keep no direction."""
    capacity: int
    """Rows of S, buffer included."""
    ridges: tuple[float, float, float]
    """Ridges of the experts with a sketch, in units of the rows' mean squared length …"""
    growths: tuple[float, float, float]
    """… and the parts of Σρ that are added to them."""
    root_step: float
    own_step: float
    step: float
    bold_step: float
    """Steps of the third expert and of the AdaGrads, in units of labels over the rows' root mean squared length."""
    precision: float
    """The first precision of the diagonal Laplace expert, in units of the rows' mean squared length."""
    real: bool
    """Whether labels are numbers with a centre and a unit of their own."""
    signs: bool
    """Whether labels are signs; counts are neither."""
    intercept: bool
    ranged: bool
    """Whether predictions are kept within the range of labels seen."""
    clip: float
    forget: float
    told: float
    """Rows that tell the Newton experts less than this (curvature times leverage) wait until they have told so much
    together."""
    free: int
    """So many features get their sketch columns when first met …"""
    patience: int
    """… the others when met so many times; they are cold until then."""
    largest: float
    """Bound on what is written per feature …"""
    steepest: float
    """… and on gradients, whose squares are summed up."""
    resolution: float
    """The share of the largest energy below which the rows of the sketch cannot tell an energy from 0."""


class Light(NamedTuple):
    """What every feature has."""

    rows: Annotated[NDArray[np.floating], Array("warm 16", "real", aligned=True)]
    """Of warm features; place 0 is not used."""
    cold: Annotated[NDArray[np.float32], Array("cold 14", "f4", aligned=True)]
    """Likewise of cold ones."""
    places: Annotated[NDArray[np.int32], Array("slots", "i4")]
    """By slot: the place of a warm feature, or less than 0: minus that of a cold one; 0: not met yet."""
    buffer: Annotated[NDArray[np.floating], Array("buffered since", "real", aligned=True)]
    """(features met since the last shrink, rows of S since then)."""


def rows_of(light: Light, count: int) -> NDArray[np.float64]:
    """(count, WIDTH): the light rows by slot."""
    places = light.places[:count].astype(np.int64)
    rows = np.zeros((count, WIDTH))
    warm, cold = places > 0, places < 0
    rows[warm] = light.rows[places[warm]]
    rows[cold, :COLD_WIDTH] = light.cold[-places[cold]]
    rows[cold, LIGHT.log] = np.log(rows[cold, LIGHT.scale])
    return rows


def beyond_float32(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which light rows cannot be cold: float32 would lose what they hold."""
    sizes = np.abs(rows[:, :COLD_WIDTH])
    least = np.where(np.arange(COLD_WIDTH) < LIGHT.mean, 0.0, 1.0 / COLD_LIMIT)  # weights may vanish
    return np.asarray(((sizes > COLD_LIMIT) | ((sizes > 0.0) & (sizes < least))).any(axis=1))


def light_of(empty: Light, counts: NDArray[np.int64], rows: NDArray[np.float64], warm: NDArray[np.bool_]) -> Light:
    """Tables with these light rows, of which these are warm; the counts are set to them."""
    cold = np.logical_not(warm)
    places = np.where(warm, np.cumsum(warm), -np.cumsum(cold)).astype(np.int32)
    counts[[TALLY.warm, TALLY.cold, TALLY.freed]] = warm.sum(), cold.sum(), 0
    light: Light = grow(empty, warm=int(counts[TALLY.warm]) + 1, cold=int(counts[TALLY.cold]) + 1, slots=len(rows))
    light.rows[places[warm]] = rows[warm]
    light.cold[-places[cold]] = np.clip(rows[cold, :COLD_WIDTH], -COLD_LIMIT, COLD_LIMIT)
    light.places[: len(rows)] = places
    return light


_STARTS = {FIGURE.low: _FAR, FIGURE.high: -_FAR, FIGURE.fade: 1.0, FIGURE.thin: 1.0, FIGURE.heaviest: 1.0}
_FIGURES = tuple(_STARTS.get(place, 0.0) for place in FIGURE)
_SQUARED = LARGEST * LARGEST


class Mixture(NamedTuple):
    """What is not kept for each feature: tallies, the mixture of the experts, and the small algebra of their sketch."""

    counts: Annotated[NDArray[np.int64], Array("12", "i8", start=(0, -1, *[0] * 10))]
    numbers: Annotated[Floats, Array("20", start=_FIGURES, within={FIGURE.heaviest: (1.0, LARGEST)})]
    sums: Annotated[Floats, Array("3 8", within=(-_SQUARED, _SQUARED))]
    """(3, LANES): Σ loss of the experts, of the calibrated experts, and of the three stages."""
    shares: Annotated[Floats, Array("3 8", within=(0.0, 1.001))]
    """Likewise, how much each counts."""
    calibration: Annotated[Floats, Array("2 8", start=1.0, within={0: (-LARGEST, LARGEST), 1: (1.0, _SQUARED)})]
    """(2, LANES): factor of each expert, and its precision."""
    stack: Annotated[Floats, Array("9", start=(1.0, *[0.0] * 8))]
    """(FEATURES,): the coefficients of the regression on the experts …"""
    covariance: Annotated[Floats, Array("9 9")]
    """… and their covariance."""
    mix: Annotated[Floats, Array("8")]
    """(LANES,): the coefficients of the experts in the prediction; the last is the constant's, in units of labels."""
    a: Annotated[Floats, Array("3 capacity")]
    """Coefficients on the sketch's rows of the experts that step through it."""
    gram: Annotated[Floats, Array("capacity capacity")]
    inverses: Annotated[Floats, Array("2 capacity capacity")]
    """(ridge_k·I + SSᵀ)^{-1}."""
    values: Annotated[Floats, Array("capacity", scratch=True)]
    vectors: Annotated[Floats, Array("m m", scratch=True)]
    spectrum: Annotated[Floats, Array("capacity")]
    """Energies of the rows that the last shrink has made orthogonal."""
    transform: Annotated[Floats, Array("turned entry", scratch=True)]
    """The change of basis of a shrink, as the heavy table logs it."""
    work: Annotated[Floats, Array("2 m", scratch=True)]

    @classmethod
    def empty(cls, capacity: int, kept: int) -> Self:
        """The state before the first row."""
        made: Self = new(cls, capacity=capacity, m=padded(capacity), turned=capacity + 1, entry=padded(kept + 3))
        made.shares[:2, :EXPERTS], made.shares[2, :3] = np.divide(PRIORS, sum(PRIORS)), 1.0 / 3.0
        made.mix[:EXPERTS] = made.shares[0, :EXPERTS]
        return made
