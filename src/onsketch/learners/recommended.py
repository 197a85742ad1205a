"""Recommended defaults of the named methods: an intercept, scaled features, and steps that cannot overshoot.

``onsketch.learner(name)`` uses a method as published. ``onsketch.learner(name, defaults="recommended")`` (or
``onsketch.safe_learner``), the estimators of scikit-learn and River, and the program without ``--plain`` start from
these options. Options that are given stay as they are.

=======================  =====================================================================================
option                   recommended
=======================  =====================================================================================
``fit_intercept``        True
``scaling``              "magnitude" (none with ``box``, whose bounds are in the units of the data)
``step``                 "implicit", if the method has such steps: not with update "dual", nor in dense learners
``clip``                 None: predictions are not clipped (auto clips them to the range of the labels)
``summary``              "curvature" for Newton methods and losses with a curvature: it is free of units
``curvature_schedule``   otherwise "1/t", or "1/sqrt(t)" for losses without exp-concavity
``diagonal``             True for Oja's algorithm and classes, as it finds few directions
``gamma``                "scale" for kernel methods
``max_points``           500 for kernel methods, but sketched-kons
``ridge``                for rows of length 1: see the table of sketches
``step_size``            for rows of length 1 and labels of size 1: see the table of update rules; larger for classes
=======================  =====================================================================================

``auto`` has its own scales and steps and needs none of these. Kernel methods get the intercept, the scales, γ, the
bound on rows, the clip and the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onsketch.core.losses import LOSSES
from onsketch.learners.methods import METHODS, Method
from onsketch.learners.options import own_loss


def fitting_loss(method: str, loss: Any) -> Any:
    """Return the loss to use with a method: ``loss``, or the squared hinge for arow, its only loss for classes."""
    loss = own_loss(loss)
    losses = METHODS[method].moves.losses if method in METHODS else ()
    return "squared_hinge" if losses and loss == "logistic" else loss


def recommended_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options of a method, completed by its recommended ones.

    >>> recommended_options("rfd-son", {"loss": "logistic", "ridge": 1.0})
    {'fit_intercept': True, 'scaling': 'magnitude', 'step': 'implicit', 'clip': None, 'summary': 'curvature',
    'loss': 'logistic', 'ridge': 1.0}
    >>> recommended_options("auto", {"loss": "logistic"})
    {'loss': 'logistic'}
    """
    options = {key: value for key, value in given.items() if not (key == "clip" and value == "default")}
    if "loss" in options:
        options["loss"] = own_loss(options["loss"])
    if name not in METHODS or METHODS[name].mixture:
        return options
    method = METHODS[name]
    added: dict[str, Any] = {"fit_intercept": True, "gamma": "scale", "max_points": 500}
    if options.get("box") is None and isinstance(options.get("kernel", ""), str):
        added["scaling"] = "magnitude"
    terms = any(options.get(name) for name in ("l1", "l2", "box")) or (options.get("oja_block") or 1) > 1
    dense = method.sketched and (terms or not method.kind.packed)  # as build.class_of decides
    implicit = options.get("update") != "dual" and not dense
    if implicit:
        added["step"] = "implicit"
    added["clip"] = None
    added |= _absorbed(method, options)
    if {**added, **options}.get("scaling") == "magnitude" and not method.kernel:
        added |= for_unit_rows(method)
        if implicit and options.get("step") != "explicit" and method.moves.step_size and not method.newton:
            added["step_size"] *= _longer_steps(method, options.get("loss", "squared"))
        if (
            implicit
            and {**added, **options}.get("diagonal")
            and "summary" in added
            and not {"ridge", "step_size"} & options.keys()
        ):
            added |= _SLOW
    return {**{key: value for key, value in added.items() if key in method.concerns and key not in options}, **options}


_SLOW = {"ridge": 2.0, "step_size": 4.0}
"""Options of Oja's algorithm for classes: larger steps per feature make up for directions that it has not found."""


def _longer_steps(method: Method, loss: Any) -> float:
    """Return the factor of step sizes for classes: margins must become large, and too large a step does no harm.

    In regression, larger steps follow the noise; so they do for rare classes if each feature has its own rate.
    """
    if loss not in LOSSES or LOSSES[loss].labels != "sign" or method.moves.moments:
        return 1.0
    if method.sketch == "diagonal" and method.geometry == "adagrad":
        return 1.5
    return 4.0 if method.geometry == "gradient" and method.steps else 2.0


def _absorbed(method: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default ``summary`` of a Newton method: what its sketch absorbs."""
    loss = LOSSES.get(options.get("loss", "squared"))
    given = any(options.get(name) is not None for name in ("summary", "curvature", "curvature_schedule", "clip"))
    if not method.newton or loss is None or given:
        return {}
    diagonal = {"diagonal": True} if method.kind.slow and loss.labels == "sign" else {}
    if loss.smooth and (not method.square or loss.name == "squared"):
        return {"summary": "curvature", **diagonal}
    return {"curvature_schedule": "1/t" if loss.exp_concavity(None) > 0.0 else "1/sqrt(t)", **diagonal}


def for_unit_rows(method: Method) -> dict[str, Any]:
    """Return the ridge or step size for rows of length 1 and labels of size 1."""
    if method.newton:
        return {"ridge": method.kind.recommended_ridge}
    return {"step_size": method.moves.step_size}
