"""The state of the learner without tuning, declared once, and its constants with their meaning."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core import scaling
from onsketch.core import state as states
from onsketch.core.losses import Form
from onsketch.core.state import Array
from onsketch.jit.vectors import padded
from onsketch.learners.sketched.packed import Table

Floats = NDArray[np.float64]
Reals = NDArray[Any]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

NEWTON = 2
"""Newton experts: one metric with two ridges."""
OUTPUTS = 5
OWN, WIDE, BOLD, FIRST = 0, 1, 2, 3
"""Outputs: AdaGrad in own scales, two AdaGrads in the wide form, and from FIRST on the Newton experts."""
STACKED = OUTPUTS + 2
"""Features of the stack: the mean of the experts, each expert from it, and a constant."""
LANES = 8
"""Numbers that are treated at once where each expert has one, or a row's features."""
EXPERT_NAMES = ("AdaGrad in own scales", "AdaGrad", "bold AdaGrad", "Newton", "second Newton")

# Metrics
EXACT_RIDGES = (0.2, 0.001)
"""Ridges of the exact metrics, in units of the typical squared length."""
SKETCH_RIDGES, GROWTHS = (0.03, 0.003), (0.5, 0.05)
"""Ridges over a sketch, in the same unit, and the shares of what the sketch lost that are added to them."""
NARROW, FEW = 260, 700_000
"""The metric is exact while d + 1 ≤ NARROW and K·(d + 1)² ≤ FEW."""
WORTH, SLIGHT = 0.08, 1e-5
"""Information, curvature times leverage, with which a row enters a metric. Rows with less are saved up until one row
enters for all of them. The second is for the exact metrics of numbers and counts: there every row counts."""
FREE, PATIENCE, PLACES = 1024, 10.0, 20_000
"""So many features have sketch columns at once, the others after so many values; there are so many columns at most."""
SMALL = 0.1
"""A class is left alone where its gradient cannot move its margin by more than this share of the ridge's length."""
LEAST_FACTOR = 0.01
"""Least factor of a class over the shared sketch."""
NORM_LEAP = 1.5
"""The ridges of exact metrics follow the typical length when it is off by this factor; those of a sketch by LEAP."""
REWRITTEN = 0.01
"""A changed prior is written into an exact metric where it changes the variance by more than this share."""
STRANGE = 1e6
"""A scale that moves by more than this factor starts the feature anew: its square must stay above rounding."""
DELAYED = 8
"""An exact metric is written after so many rows: in between it is P less one vector's square for each row."""
LEAST_FADE = 0.5
"""Forgetting is written into metrics when this is left."""

# First order
STEPS = (1.5, 5.0, 3.0)
"""Steps of the AdaGrads, for rows of length 1 and labels of size 1; the last is explicit for labels of two classes."""
FIRST_ENERGY = 0.1
"""Start of an AdaGrad energy, in units of the feature's square (times the label's for the squared loss)."""
RARITY = 0.5
"""AdaGrad in own scales multiplies a feature by 1 + RARITY·log(rows/rows that have it)."""
BROADEST = 3.0
"""Bound of a feature's magnitude over the common one in the wide form."""

# Mixture
PRIOR, STACK_PRIOR = 10.0, 3.0
"""Precisions of the priors of temperatures and of the stack, in rows of curvature 1 and margin 1."""
RATE = 0.5
"""Rate of exponential weights; 1 is Bayes' rule for the logistic loss."""
TRUSTS = (1 / 11, 1 / 11, 1 / 11, 4 / 11, 4 / 11)
"""Prior shares of the experts: a Newton expert counts four times."""
FADE = 1.0
"""Row t counts as t^FADE in the losses by which experts and combinations are weighted."""
FARTHEST = 50.0
"""Margins of classes count as at most ± this in the mixture."""
COOLEST, HOTTEST = 0.05, 20.0
"""Bounds of the temperatures."""
MARGIN = 0.1
"""Numbers are bounded to the range of labels seen, widened by this share at either end."""
EARLY_LABELS = 10
"""Numbers: rows after which the unit of labels is known well enough for the mixture."""
LEAST_RATE = 0.01
"""The centre of counts is not below the logarithm of this."""


class Run(NamedTuple):
    """Places of the running figures."""

    rounds: int
    seen: int
    """Features seen."""
    listed: int
    """Centred features in the list."""
    rows: int
    """Rows of the sketch."""
    norm: int
    wide: int
    """Typical squared lengths of rows in own scales and in the wide form."""
    start: int
    """Rows before the first with a length."""
    used: int
    before: int
    """The typical squared length in use, and the one used before it."""
    common: int
    values: int
    """Mean log magnitude, and the values it is of."""
    lost: int
    """Sum of the energies that shrinks have taken off."""
    pending: int
    """Information of the rows that are not in the sketch yet."""
    alpha: int
    """Sum of the factors of the classes."""
    centre: int
    mean: int
    unit: int
    """Centre of the labels, mean and mean deviation from it."""
    low: int
    high: int
    weight: int
    """Total weight of the rows in the mixture."""
    heaviest: int
    fade: int
    thin: int
    """Shares of the metrics and of the energies that forgetting has left."""
    status: int
    """The request of the loop."""
    classes: int
    squares: int
    """Sum of squared errors."""


RUN = Run(*range(len(Run._fields)))

DONE, SQUARE, LONG, RIDGES, FADED = range(5)
"""Requests of the loop: nothing; room for an exact metric, for a row; new ridges; a fade written out."""

LARGEST_WEIGHT, LARGEST_STEP = 1e50, 1e150


class Setup(NamedTuple):
    """Constants of a learner."""

    loss: Form
    signs: bool
    real: bool
    counts: bool
    intercept: bool
    bounded: bool
    clip: float
    forget: float
    largest: float
    """Bound of labels, so that all that is written stays finite in the type of the state."""


class State(NamedTuple):
    """Weights w of a row's features and constant (slot 0), for each output and class; see ``round.py``."""

    figures: Annotated[Floats, Array(f"slots {scaling.FIGURES}", within=(0.0, 1e301))]
    weights: Annotated[Reals, Array(f"slots {OUTPUTS} classes", "real")]
    energies: Annotated[Reals, Array(f"slots {FIRST}", "real", within=(0.0, math.inf))]
    places: Annotated[Ints, Array("slots", "i4", start=-1)]
    """Column of the sketch; −1 for none."""
    listed: Annotated[Ints, Array("centred", "i4")]
    """The slots of centred features, which a row visits also where they are 0; ``centred`` is a multiple of 8."""
    centred: Annotated[Floats, Array(f"{scaling.STATISTICS} centred")]
    """Their statistics."""
    slot_of: Annotated[Ints, Array("places", "i4")]
    table: Table
    """The columns of the sketch S without the rows since the last shrink; see ``columns.py``."""
    buffer: Annotated[Reals, Array("buffered since", "real", aligned=True)]
    """Rows of S since the last shrink, of the features met since then."""
    coefficients: Annotated[Floats, Array(f"{NEWTON} width classes")]
    """a: weights are w + Sᵀa."""
    gram: Annotated[Floats, Array("width width")]
    inverses: Annotated[Floats, Array(f"{NEWTON} width width")]
    """(ridge·I + SSᵀ)⁻¹."""
    metrics: Annotated[Floats, Array(f"{NEWTON} classes square square")]
    """Exact: (ridge·I + Σ κ·xxᵀ)⁻¹ + Σ by·u uᵀ for each class; ``square`` is a multiple of 8."""
    delayed: Annotated[Floats, Array(f"{NEWTON} classes {DELAYED} square")]
    """The vectors u that are to be taken off a metric."""
    delayed_by: Annotated[Floats, Array(f"{NEWTON} classes {DELAYED}")]
    waiting: Annotated[Longs, Array(f"{NEWTON} classes", "i8", within=(0, DELAYED - 1))]
    """How many there are."""
    pending: Annotated[Floats, Array(f"{NEWTON} classes", within=(0.0, math.inf))]
    """Information of the rows that are not in an exact metric yet."""
    factors: Annotated[Floats, Array("classes")]
    """Curvature that each class has had, over a sketch."""
    running: Annotated[Floats, Array(f"{len(Run._fields)}")]


class Mixture(NamedTuple):
    """The mixture of one output; see ``mixing.py``. Several classes have the pool of ``pool.py``."""

    temperatures: Annotated[Floats, Array(f"{OUTPUTS}", start=1.0, within=(COOLEST, HOTTEST))]
    hardness: Annotated[Floats, Array(f"{OUTPUTS}", start=PRIOR, within=(1.0, math.inf))]
    losses: Annotated[Floats, Array(f"{OUTPUTS}")]
    shares: Annotated[Floats, Array(f"{OUTPUTS}", start=tuple(TRUSTS), within=(0.0, 1.0))]
    stack: Annotated[Floats, Array(f"{STACKED}", start=(1.0, *[0.0] * (STACKED - 1)), within=(-HOTTEST, HOTTEST))]
    hessian: Annotated[Floats, Array(f"{STACKED} {STACKED}")]
    """Without the prior."""
    costs: Annotated[Floats, Array("2")]
    ways: Annotated[Floats, Array("2", start=0.5, within=(0.0, 1.0))]
    """Losses of the mixture and of the stack, and their shares."""
    mix: Annotated[Floats, Array(f"{OUTPUTS + 1}", start=(*TRUSTS, 0.0))]
    """Coefficients of the experts in the prediction, and the constant's, in units of labels."""


class Scratch(NamedTuple):
    """Arrays of one round: nothing in them outlives it."""

    slots: Annotated[Longs, Array("entries", "i8")]
    raw: Annotated[Floats, Array("entries")]
    own: Annotated[Floats, Array("entries")]
    rare: Annotated[Floats, Array("entries")]
    wide: Annotated[Floats, Array("entries")]
    rarity: Annotated[Floats, Array("entries")]
    statistics: Annotated[Floats, Array(f"{scaling.ENTRIES} entries")]
    """Of the row's entries: see ``core/scaling.py``."""
    order: Annotated[Floats, Array("entries")]
    """0, 1, 2, …"""
    moved: Annotated[Longs, Array("entries", "i8")]
    earlier: Annotated[Floats, Array("entries 3")]
    """Entries that have moved, and their three forms before."""
    by: Annotated[Floats, Array(f"{FIRST} entries")]
    energies: Annotated[Floats, Array(f"{FIRST} entries")]
    paces: Annotated[Floats, Array(f"{FIRST}")]
    """Steps of the AdaGrads: x/√energy, the energies with this row, and what multiplies them."""
    sums: Annotated[Floats, Array("3")]
    """Squared lengths of the row in own scales, with rarity, and in the wide form."""
    parts: Annotated[Floats, Array(f"{OUTPUTS} classes")]
    """Margins of the features alone, before rows are scaled to a length."""
    before: Annotated[Floats, Array(f"{OUTPUTS} classes")]
    margins: Annotated[Floats, Array(f"{OUTPUTS} classes")]
    slopes: Annotated[Floats, Array(f"{OUTPUTS} classes")]
    lengths: Annotated[Floats, Array("classes")]
    leverages: Annotated[Floats, Array(f"{NEWTON} classes")]
    along: Annotated[Floats, Array("square")]
    factors: Annotated[Floats, Array(f"{4 * DELAYED}")]
    products: Annotated[Floats, Array("width")]
    inner: Annotated[Floats, Array(f"{NEWTON} width")]
    turned: Annotated[Floats, Array("2 width")]
    placed: Annotated[Longs, Array("entries", "i8")]
    entries: Annotated[Floats, Array("entries")]
    """Places of the row's columns, and the row there."""
    packed: Annotated[Floats, Array("packed")]
    current: Annotated[Floats, Array("1 packed")]
    turned_row: Annotated[Floats, Array("packed")]
    buffered: Annotated[Floats, Array("since")]
    transform: Annotated[Floats, Array("width entry")]
    values: Annotated[Floats, Array("width")]
    vectors: Annotated[Floats, Array("spectral spectral")]
    work: Annotated[Floats, Array("2 spectral")]
    """Scratch of a shrink."""
    features: Annotated[Floats, Array(f"{LANES}")]
    gradient: Annotated[Floats, Array(f"{LANES}")]
    factor: Annotated[Floats, Array(f"{STACKED} {LANES}")]
    ends: Annotated[Floats, Array(f"{LANES}")]
    reaches: Annotated[Floats, Array(f"{LANES}")]
    steep: Annotated[Floats, Array(f"{LANES}")]
    bends: Annotated[Floats, Array(f"{LANES}")]
    """Margins, lengths, slopes and curvatures of implicit steps that are taken at once."""


class PoolScratch(NamedTuple):
    """Scratch of ``pool.py`` in a round; z is ``Scratch.before``."""

    z: Floats
    f: Floats
    g: Floats
    parts: Floats
    p: Floats
    gradient: Floats
    work: Floats


def start(state: State) -> None:
    """Fill what is not 0 before the first row."""
    run = state.running
    run[[RUN.low, RUN.high]] = 1e300, -1e300
    run[[RUN.fade, RUN.thin, RUN.heaviest]] = 1.0
    state.places[0] = 0


def new_scratch(state: State, entries: int) -> Scratch:
    """Return arrays for the rounds of rows with so many entries."""
    have = states.sizes(state)
    made: Scratch = states.new(
        Scratch, entries=padded(entries, 8) + 8, classes=have["classes"], square=have["square"], width=have["width"],
        since=have["since"], packed=state.table.rows.shape[1], spectral=padded(have["width"]),
        entry=state.table.running.shape[2],
    )  # fmt: skip
    made.order[:] = np.arange(made.order.size)
    return made
