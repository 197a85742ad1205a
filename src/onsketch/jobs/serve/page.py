"""The live page and the figures it draws, beyond those of ``/status``."""

from __future__ import annotations

import contextlib
import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from onsketch.core.errors import OnsketchError
from onsketch.jobs.serve.model import Model

if TYPE_CHECKING:
    from onsketch.jobs.serve.service import Service

PAGE = files("onsketch.jobs.serve").joinpath("page.html").read_text("utf-8")

_SELDOM = 5
"""Weights and spectrum are written out in one event out of many: that costs a pass over all features."""
_MOST = 20


def figures(service: Service, number: int) -> dict[str, Any]:
    """Curves in each event; weights, spectrum and experts now and then."""
    engine = service.engine
    found: dict[str, Any] = {"curve": engine.model.counted().quality.curve}
    if engine.shadow is not None:
        found["shadow_curve"] = engine.shadow.counted().quality.curve
    if number % _SELDOM == 0:
        found["inside"] = engine.between_steps(lambda model: _inside(model, service.names))
    return found


def _inside(model: Model, names: dict[int, str]) -> dict[str, Any]:
    """The largest weights by name, the spectrum of the sketch, and the experts of ``auto``."""
    found: dict[str, Any] = {"weights": [], "spectrum": [], "experts": []}
    if model.kind == "multiclass":
        return found
    learner = model.learner
    with contextlib.suppress(OnsketchError):  # a kernel learner has no weights of features
        features, weights = learner.coefficients()
        largest = np.argsort(-np.abs(weights), kind="stable")[:_MOST]
        found["weights"] = [
            [names.get(int(features[k]), str(int(features[k]))), float(weights[k])]
            for k in largest
            if weights[k] != 0.0
        ]
    with contextlib.suppress(OnsketchError):
        found["spectrum"] = [value for value in learner.spectrum().tolist() if value > 0.0 and math.isfinite(value)]
    if hasattr(learner, "shares"):
        found["experts"] = [list(pair) for pair in zip(learner.share_names, learner.shares.tolist(), strict=True)]
    return found
