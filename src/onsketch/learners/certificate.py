"""Regret bounds for the rows seen so far, computed from a learner's own state.

A sketched Newton learner (luo2016, Theorems 2 and 3; luo2019, Theorem 5) has, against every w whose margins stay within
±C, a regret of at most

    ½α‖w‖²  +  2(CL)² Ση_t  +  (ln det(A_T/α) + loss of the sketch) / (2(σ + η_T))

where A_T is its metric, α the ridge it started from, L the steepest slope of the loss on ±C. The theorems then bound
the determinant and the loss of the sketch by the spectrum of all gradients. A learner need not, since it knows both:
the spectrum λ of its sketch, and Σρ, the energy removed by shrinking. With n rows in a full sketch (m, or 2m for fast
forms):

========  ====================================================  =================================================
exact     Σ ln(1 + λ_i/α)                                       luo2016, Theorem 2
fd, pfd   Σ ln(1 + λ_i/α) + n·Σρ/α                              luo2016, Theorem 3, before Σρ is bounded
rfd       Σ ln((α_T + λ_i)/α) + (d − k) ln(α_T/α)               luo2019, Theorem 5, with Σ ρ_t/α_t at most
          + n·ln(α_T/α), and C²Σρ outside the bracket           2 ln(α_T/α), because α_t grows by ρ_t/2
========  ====================================================  =================================================

The error of the sketch is at most Σρ in spectral norm; half of that for robust frequent directions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, OptionError
from onsketch.core.losses import LOSSES, loss_of, loss_values
from onsketch.core.shrinking import HALF
from onsketch.learners.setup import projects_after

if TYPE_CHECKING:
    from onsketch.learners.base import Learner
    from onsketch.learners.options import Options


@dataclass(frozen=True)
class Certificate:
    """Bounds that hold for what a learner has seen, if its conditions do."""

    method: str
    rounds: int
    theorem: str
    """Where the bound of the regret is proven; empty where there is none."""
    escaped: float
    """Σρ, what the sketch has shrunk away."""
    escaped_share: float
    """Return Σρ over the trace of the absorbed matrix, as far as the sketch keeps it."""
    sketch_error: float | None
    """Bound of ‖GᵀG − SᵀS‖₂ (for RFD with the growth of the ridge in it), G being the rows absorbed."""
    comparator_norm: float
    """‖w‖ for which the regret is bounded: the comparator's, or that of the learner's own weights."""
    regret_bound: float | None
    """Bound of the regret against every w of that norm whose margins stay within ±C; None where nothing is proven."""
    terms: Mapping[str, float]
    """Terms of the bound, by name."""
    regret: float | None
    """Σ loss of the margins given, less that of the comparator."""
    conditions: tuple[str, ...]
    """Assumptions of the theorem that a learner cannot check."""
    broken: tuple[str, ...]
    """Violated assumptions; if there are any, no bound is returned."""

    def __str__(self) -> str:
        lines = [f"{self.method} after {self.rounds:,} rows"]
        if self.sketch_error is not None:
            lines.append(f"sketch error at most {self.sketch_error:.4g} (escaped share {self.escaped_share:.2%})")
        if self.regret_bound is not None:
            lines.append(f"regret at most {self.regret_bound:.4g} against ‖w‖ ≤ {self.comparator_norm:.4g}")
            lines.append(f"by {self.theorem}, if {'; '.join(self.conditions)}")
        if self.regret is not None:
            lines.append(f"regret {self.regret:.4g}")
        lines += [f"no bound of the regret: {reason}" for reason in self.broken]
        return "\n".join(lines)


def certify(learner: Learner, comparator: Any = None, X: Any = None, y: Any = None, margins: Any = None) -> Certificate:
    """See :meth:`onsketch.Learner.certificate`."""
    weights = learner.weights if comparator is None else np.asarray(comparator, np.float64)
    if weights.shape != (learner.n_features,) or not np.isfinite(weights).all():
        raise InputError(f"comparator: {learner.n_features} finite numbers are needed, one for each feature.")
    norm = float(np.linalg.norm(weights))
    kind, escaped = learner.method.kind, learner.escaped
    broken = _broken(learner)
    terms = {} if broken else _terms(learner, norm, escaped)
    spectrum = np.zeros(0) if kind.error_share is None else learner.spectrum()
    kept = float(spectrum.sum())
    return Certificate(
        method=learner.method.name,
        rounds=learner.rounds,
        theorem="" if broken else kind.theorem,
        escaped=escaped,
        escaped_share=escaped / (escaped + kept) if escaped > 0.0 else 0.0,
        sketch_error=None if kind.error_share is None else kind.error_share * escaped,
        comparator_norm=norm,
        regret_bound=None if broken else sum(terms.values()),
        terms=terms,
        regret=None if comparator is None or X is None else _regret(learner, weights, X, y, margins),
        conditions=_conditions(learner),
        broken=broken,
    )


def _conditions(learner: Learner) -> tuple[str, ...]:
    clip = learner.options.clip
    asked = ["every row has weight 1"]
    if LOSSES[learner.options.loss].labels == "real":
        asked.append(f"labels stay within ±{clip}")
    if learner.options.loss == "poisson":
        asked.append(f"labels stay within e^{clip}")
    if learner.method.kind.robust:
        asked.append(
            f"‖w_t − w‖ stays within {2.0 * clip if isinstance(clip, float) else '2C'}, as the paper's proof asks"
        )
    return tuple(asked)


def _broken(learner: Learner) -> tuple[str, ...]:
    """Return the reasons why no theorem covers this learner."""
    o, kind = learner.options, learner.method.kind
    given = isinstance(o.clip, float)
    start = _first_ridge(learner)
    grown = learner.ridge - start - (HALF * learner.escaped if kind.robust else 0.0)
    reasons = (
        (not (learner.method.newton and kind.theorem), "there is no theorem for this method"),
        (not given, "without a clip margins have no bound"),
        (given and projects_after(learner.method, o), "margins are predicted before the clip is heeded (projection)"),
        (o.summary != "gradient", f"summary={o.summary!r}: the theorems are of gradient rows"),
        (o.update != "mirror", "they are of mirror descent"),
        (o.step_size != 1.0, "they are of steps of size 1"),
        (o.forget != 1.0, "they are of learners that forget nothing"),
        (o.diagonal, "they are of one metric for all rounds, without diagonal adaptation"),
        (start == 0.0, "they ask for a ridge above 0"),
        (hasattr(learner, "sketch_size"), "they are of a sketch whose size does not change"),
        (abs(grown) > 1e-9 * max(start, learner.ridge), "the ridge was raised with the rows; give one"),
    )
    return tuple(reason for found, reason in reasons if found)


def _first_ridge(learner: Learner) -> float:
    from onsketch.learners.methods import FIRST_RIDGE

    return FIRST_RIDGE if learner.options.ridge is None else learner.options.ridge


def _steepest(o: Options, bound: float) -> float:
    """L: the largest |ℓ'| on |z| ≤ C, labels of real losses within ±C, counts within e^C."""
    known = {"squared": 4.0 * bound, "squared_hinge": 2.0 * (1.0 + bound), "poisson": math.exp(bound)}
    return known.get(o.loss, min(4.0 * bound, 2.0 * o.epsilon) if o.loss == "huber" else 1.0)


def _schedule(learner: Learner) -> tuple[float, float]:
    """Return Σ η_t over the rounds, and η_T."""
    T, name = learner.rounds, learner.options.curvature_schedule
    if name in (None, "none") or T == 0:
        return 0.0, 0.0
    powers = np.arange(1, T + 1, dtype=np.float64) ** (-1.0 if name == "1/t" else -0.5)
    return float(powers.sum()), float(powers[-1])


def _terms(learner: Learner, norm: float, escaped: float) -> dict[str, float]:
    o, kind = learner.options, learner.method.kind
    assert isinstance(o.clip, float)
    start, ridge, clip = _first_ridge(learner), learner.ridge, o.clip
    total, last = _schedule(learner)
    sigma = loss_of(o).exp_concavity(clip) if o.curvature is None else o.curvature
    rows = 2 * o.sketch_size if o.doubling else o.sketch_size
    spectrum = learner.spectrum()
    if kind.robust:
        growth = math.log(ridge / start)
        inside = float(np.log((ridge + spectrum) / start).sum()) + max(learner.n_features - spectrum.size, 0) * growth
        lost = rows * growth
    else:
        inside = float(np.log1p(spectrum / start).sum())
        lost = rows * escaped / start if kind.sized else 0.0
    terms = {
        "comparator": 0.5 * start * norm * norm,
        "schedule": 2.0 * (clip * _steepest(o, clip)) ** 2 * total,
        "determinant": inside / (2.0 * (sigma + last)),
        "lost by the sketch": lost / (2.0 * (sigma + last)),
    }
    if kind.robust:
        terms["growth of the ridge"] = clip * clip * escaped
    return terms


def _regret(learner: Learner, weights: NDArray[np.float64], X: Any, y: Any, margins: Any) -> float:
    if y is None or margins is None:
        raise OptionError("certificate: the regret needs X, y and margins, which learn returned for these rows.")
    theirs = np.asarray(X @ weights, np.float64).reshape(-1)
    return float(loss_values(learner.loss, margins, y).sum() - loss_values(learner.loss, theirs, y).sum())
