"""Build learners by name or from parts."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

from onsketch.core.arrays import require, require_room
from onsketch.core.errors import OptionError, suggestion
from onsketch.files.model_file import Content, describing
from onsketch.learners.base import Learner
from onsketch.learners.keywords import LearnerOptions
from onsketch.learners.methods import METHODS, Method, compose_method
from onsketch.learners.options import Options, documents_options, from_json, refuse_own_size, resolve
from onsketch.learners.recommended import recommended_options


def methods() -> dict[str, str]:
    """Every method by name, with its one line and citation.

    >>> print(methods()["rfd-son"])
    sketched online Newton by robust frequent directions (Luo, Chen, Zhang, Li and Zhang 2019)
    """
    return {name: str(method) for name, method in METHODS.items()}


DEFAULTS = ("paper", "recommended")
"""Options to start from: the published ones, or recommended ones for raw features."""


@documents_options
def learner(method: str, *, defaults: str = "paper", **options: Unpack[LearnerOptions]) -> Learner:
    """An online learner by name.

    Args:
        method: a name out of :func:`methods`.
        defaults: "paper", the method as published; or "recommended", with an intercept, scaled features and implicit
            steps, as in the estimators and the program. Options that are given stay as they are.
        **options: None leaves an option to the method (``clip=None`` is no bound). An option that does not concern the
            method is an error.

    >>> import numpy as np, onsketch
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5)) * [1, 10, 0.1, 3, 1]
    >>> y = np.sign(X @ [1.0, 0.1, -9.0, 0.3, 0.5])
    >>> model = onsketch.learner("rfd-son", sketch_size=3, ridge=0.0)
    >>> predictions = model.learn(X, y)  # made before each row is learned
    >>> bool(np.mean(np.sign(predictions) != y) < 0.2)
    True
    """
    if not isinstance(method, str) or method not in METHODS:
        known = f"the methods are {', '.join(METHODS)}.{suggestion(method, METHODS)}"
        raise OptionError(f"there is no method {method!r}; {known}")
    if defaults not in DEFAULTS:
        raise OptionError(f"defaults={defaults!r}: expected {' or '.join(map(repr, DEFAULTS))}.")
    return _build(METHODS[method], recommended_options(method, options) if defaults == "recommended" else options)


@documents_options
def safe_learner(method: str, **options: Unpack[LearnerOptions]) -> Learner:
    """``learner(method, defaults="recommended")``: raw features of any scale, and no step that overshoots.

    Args:
        method: a name out of :func:`methods`.
        **options: as for :func:`learner`.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 3)) * [1e-6, 1.0, 1e6]
    >>> y = np.where(X @ [3e6, 2.0, 1e-6] > 1.0, 1.0, -1.0)
    >>> margins = safe_learner("rfd-son", loss="logistic").learn(X, y)  # made before each row is learned
    >>> bool(np.mean(margins * y < 0.0) < 0.05)
    True
    """
    return learner(method, defaults="recommended", **options)


@documents_options
def compose(sketch: str = "rfd", geometry: str = "newton", **options: Unpack[LearnerOptions]) -> Learner:
    """An online learner by parts, for the combinations that have no name.

    Args:
        sketch: none, diagonal, fd, rfd, pfd, cfd, greedy, ffd, rp, oja, exact, low-rank or rada.
        geometry: newton, adagrad, s-adagrad, or gradient (with sketch="none").
        **options: as for :func:`learner`.

    >>> compose(sketch="oja", geometry="adagrad", update="dual", sketch_size=5).method.parts
    'oja × adagrad × mirror or dual'
    """
    return _build(compose_method(sketch, geometry), options)


def from_file(content: Content) -> Learner:
    """The learner that a model file describes."""
    header = content.header
    with describing("a learner"):
        name, sketch, geometry = (str(header["method"][part]) for part in ("name", "sketch", "geometry"))
        method = METHODS[name] if name in METHODS else compose_method(sketch, geometry)
        given = from_json(header["options"])
        options = resolve(method.name, method.concerns, method.defaults, given)
        width = operator.index(header["n_features"])
        require(
            0 <= width <= 1 << 63 and (options.n_features in (None, width)), "its width is impossible", "n_features"
        )
        made_by = class_of(method, options)
        known = options if options.n_features is not None else replace(options, n_features=width or None)
        require_room(made_by.room(method, known), content.arrays, "sketch_size or n_features")
        model = made_by(method, options)
    model._width = width
    model._restore(content.arrays)
    return model


def _build(method: Method, given: Mapping[str, Any]) -> Learner:
    options = resolve(method.name, method.concerns, method.defaults, given)
    return class_of(method, options)(method, options)


def build_plain(method: Method, options: Options) -> Learner:
    """Return the class of the learner without scaling, whatever ``scaling`` is."""
    return plain_class_of(method, options)(method, options)


def class_of(method: Method, options: Options) -> type[Learner]:
    """The class whose learners play this method with these options."""
    if options.scaling != "none":
        if method.kernel:
            from onsketch.learners.scaled.kernel import ScaledKernelLearner

            return ScaledKernelLearner
        from onsketch.learners.scaled.learner import ScaledLearner

        return ScaledLearner
    return plain_class_of(method, options)


def plain_class_of(method: Method, options: Options) -> type[Learner]:
    """Return the class of the learner without scaling, whatever ``scaling`` is."""
    if method.kernel:
        if method.geometry == "gradient":
            from onsketch.learners.kernel.gradient import KernelGradient

            return KernelGradient
        if method.moves.projects or options.max_points is not None:
            from onsketch.learners.kernel.projected import ProjectedNewton

            return ProjectedNewton
        from onsketch.learners.kernel.newton import KernelNewton

        return KernelNewton
    if method.mixture:
        refuse_own_size(options.sketch_size)
    if method.mixture and options.forget == "auto":
        from onsketch.learners.auto.drifting import DriftingLearner

        return DriftingLearner
    if method.mixture:
        from onsketch.learners.auto.learner import AutoLearner

        return AutoLearner
    if not method.sketched:
        from onsketch.learners.first_order.learner import FirstOrderLearner

        return FirstOrderLearner
    if str(options.sketch_size) == "auto":
        from onsketch.learners.sketched.self_sizing import SelfSizingLearner

        return SelfSizingLearner
    if method.kind.packed and not (options.l1 or options.l2 or options.box or options.oja_block > 1):
        from onsketch.learners.sketched.learner import SketchedLearner

        return SketchedLearner
    from onsketch.learners.dense.learner import DenseLearner

    return DenseLearner
