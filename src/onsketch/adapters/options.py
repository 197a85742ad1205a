"""Options of the scikit-learn and River estimators, and their conversion to learners."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays
from onsketch.core.errors import ModelFileError, OptionError, suggestion
from onsketch.core.losses import LOSSES
from onsketch.core.rwlock import Locked
from onsketch.files import model_file
from onsketch.learners.base import Learner
from onsketch.learners.build import safe_learner
from onsketch.learners.keywords import EstimatorOptions
from onsketch.learners.methods import METHODS
from onsketch.learners.multiclass import ManyClasses, OneVersusRest, SharedSketch
from onsketch.learners.multiclass.coupled import COUPLED, couples
from onsketch.learners.options import DECLARED, OF_THE_LEARNER_ALONE, given_options
from onsketch.learners.recommended import fitting_loss, for_unit_rows, recommended_options

DEFAULT_METHOD = "auto"
"""Default method of an estimator."""

SHARED_METHOD = "rfd-son"
"""Method of "auto" where all classes share one sketch: a mixture has no single sketch to share."""

CHUNK = 1 << 20
"""Values passed to a learner at a time."""

MULTICLASS = ("auto", "softmax", "one-vs-rest", "shared")
"""Strategies for more than two classes; "ovr" is short for "one-vs-rest"."""

Init = TypeVar("Init", bound=Callable[..., None])

_HANDED_ON = tuple(name for name in DECLARED if name not in OF_THE_LEARNER_ALONE)
"""Options that an estimator passes on as they are declared for learners."""


def _left_to_the_method(name: str) -> Any:
    """Return an estimator's default of an option: None, or "default" if None has its own meaning."""
    return "default" if name == "clip" else None


def takes_learner_options(init: Init) -> Init:
    """Add every option of a learner to the signature of a constructor ``(self, ..., **options)``.

    Both ecosystems read the signature to find, copy and set parameters; editors read the type of ``**options``.
    """
    whole = inspect.signature(init)
    own = [p for p in whole.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    kinds = get_type_hints(EstimatorOptions)
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_left_to_the_method(name), annotation=kinds[name]
        )
        for name in _HANDED_ON
    ]
    init.__signature__ = whole.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return init


def keep_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Store the arguments of a constructor (its ``locals()``) as attributes of the same names."""
    own = {name: value for name, value in given.items() if name not in ("self", "options", "__class__")}
    options = given["options"]
    for name in options:
        if name not in _HANDED_ON:
            hint = suggestion(name, (*_HANDED_ON, *own))
            raise TypeError(f"{type(estimator).__name__} has no parameter {name!r}.{hint}")
    vars(estimator).update(own)
    vars(estimator).update({name: options.get(name, _left_to_the_method(name)) for name in _HANDED_ON})


def learner_options(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return an estimator's given parameters as options of :func:`onsketch.learner`.

    Options that the method does not use are dropped with a warning, so that a grid may cover methods and options.

    >>> learner_options({"method": "adagrad", "loss": "log_loss", "step_size": 0.5, "fit_intercept": True})
    {'loss': 'logistic', 'step_size': 0.5, 'clip': None, 'fit_intercept': True}
    """
    given = given_options({name: parameters[name] for name in ("loss", *_HANDED_ON) if name in parameters})
    if given.get("clip", "default") == "default":
        given.pop("clip", None)
        method = METHODS.get(parameters["method"])
        if method is None or not method.mixture:  # mixtures bound numbers by themselves
            given["clip"] = None
    shared = parameters["method"] == "auto" and parameters.get("multiclass") == "shared"
    method = METHODS.get(SHARED_METHOD if shared else parameters["method"])
    idle = [name for name in given if method is not None and name not in method.concerns]
    if idle:
        warnings.warn(
            f"{', '.join(f'{name}={given.pop(name)!r}' for name in idle)}: left out, for it does not concern "
            f"method={parameters['method']!r}.",
            UserWarning,
            stacklevel=4,
        )
    given["loss"] = named_loss(parameters)
    return {**given, "fit_intercept": parameters["fit_intercept"]}


def named_loss(parameters: Mapping[str, Any]) -> Any:
    """Return the loss of an estimator by the learners' name."""
    return fitting_loss(parameters["method"], parameters["loss"])


def class_model(
    method: str,
    multiclass: str,
    n_classes: int,
    options: dict[str, Any],
    *,
    open_ended: bool = False,
    threads: int | None = None,
) -> Learner | ManyClasses:
    """Return a learner for ``n_classes`` classes: two are one learner of signs, for more ``multiclass`` decides.

    With ``open_ended``, classes may be added later, and two classes are treated like more.
    """
    multiclass = _multiclass_option(method, multiclass, options)
    if options.get("loss") == "softmax" and multiclass == "one-vs-rest":
        raise OptionError("loss='softmax' couples the classes; it needs multiclass='softmax' or 'shared'.")
    loss = "logistic" if options["loss"] == "softmax" else options["loss"]
    if loss not in LOSSES or LOSSES[loss].labels != "sign":
        raise OptionError(f"loss={loss!r}: classes need logistic, hinge, squared_hinge or softmax.")
    if n_classes == 2 and not open_ended:
        options = {**options, "loss": loss}
        return safe_learner(method, **options)
    if multiclass == "softmax":
        if method not in COUPLED:
            raise OptionError(f"multiclass='softmax' is for {' and '.join(COUPLED)}; {method} needs 'one-vs-rest'.")
        return COUPLED[method](method, n_classes, **options)
    if multiclass == "shared":
        return shared_model(method, n_classes, options)
    return OneVersusRest(
        method, n_classes, open_ended=open_ended, threads=threads, **recommended_options(method, options)
    )


def shared_model(method: str, count: int, options: Mapping[str, Any]) -> SharedSketch:
    """Return a learner of ``count`` classes, or targets (labels (rows, count)), with one sketch and scaled features."""
    name = SHARED_METHOD if method == "auto" else method
    scaled = shares_a_sketch(name) and options.get("scaling") != "none"
    added = {"scaling": "magnitude", **for_unit_rows(METHODS[name])} if scaled else {}
    if options["loss"] in ("squared", "huber") and shares_a_sketch(name) and METHODS[name].newton:
        added["summary"] = "curvature"  # recursive least squares, reweighted for huber
    return SharedSketch(name, count, **{**added, **options})


def shares_a_sketch(method: str) -> bool:
    """Return True if several targets can be learned by this method, with one sketch."""
    found = METHODS.get(SHARED_METHOD if method == "auto" else method)
    return found is not None and found.kind.shrinks and found.steps


def _multiclass_option(method: str, multiclass: str, options: Mapping[str, Any]) -> str:
    """Return the strategy of ``multiclass="auto"``: softmax if method and options support it, else one-vs-rest."""
    if multiclass == "ovr":
        return "one-vs-rest"
    if multiclass not in MULTICLASS:
        raise OptionError(f"multiclass={multiclass!r}: expected {' or '.join(map(repr, MULTICLASS))}.")
    if multiclass != "auto":
        return multiclass
    if couples(method, options):
        return "softmax"
    return "shared" if options["loss"] == "softmax" else "one-vs-rest"


def loss_of(model: Learner | ManyClasses, loss: str) -> str:
    """Return the loss that turns this learner's margins into probabilities: the given one, or softmax."""
    return "softmax" if isinstance(model, tuple(COUPLED.values())) else loss


def regression_learner(method: str, options: dict[str, Any], targets: int = 0) -> Learner | ManyClasses:
    """Return the learner for real targets: one of them (0), or several with one sketch."""
    if options["loss"] not in LOSSES or LOSSES[options["loss"]].labels == "sign":
        wanted = [name for name, loss in LOSSES.items() if loss.labels != "sign"]
        raise OptionError(f"loss={options['loss']!r}: a regressor needs {', '.join(wanted[:-1])} or {wanted[-1]}.")
    if targets:
        return shared_model(method, targets, options)
    return safe_learner(method, **options)


def merged(mine: Any, theirs: Any, numbers: NDArray[np.int64] | None = None, codes: Sequence[int] | None = None) -> Any:
    """Return a learner that has learned the rows of both, for ``merge`` of the estimators.

    Args:
        mine: the learner that takes in the other; it is left as it was.
        theirs: the other.
        numbers: the number here of each feature of the other, if they are numbered differently.
        codes: the code here of each class of the other, if it is a learner of many classes.
    """
    if type(mine) is not type(theirs):
        raise OptionError("merge: one estimator has learned two classes and the other many.")
    twin = copy.deepcopy(mine)
    if isinstance(theirs, Learner):
        merged: Any = twin.merge(_renumbered(theirs, numbers))
        return merged
    theirs = copy.deepcopy(theirs)
    if isinstance(theirs, OneVersusRest):
        theirs.learners = [_renumbered(learner, numbers) for learner in theirs.learners]
        theirs.unmet = None if theirs.unmet is None else _renumbered(theirs.unmet, numbers)
    else:
        theirs = _renumbered(theirs, numbers)
    return twin.merge(theirs, codes)


def _renumbered(learner: Any, numbers: NDArray[np.int64] | None) -> Any:
    """Return a learner whose feature k is ``numbers[k]``, with the same state otherwise."""
    if numbers is None or np.array_equal(numbers, np.arange(numbers.size)):
        return learner
    header, arrays = described(learner)
    if "features" not in arrays:
        raise OptionError(f"merge: {learner.method.name} has met its features in another order, and cannot change it.")
    known = arrays["features"] >= 0
    arrays["features"] = np.where(known, numbers[arrays["features"]], arrays["features"])
    width = "n_features" if isinstance(learner, Learner) else "width"
    return revived({**header, width: max(learner.n_features, int(numbers.max(initial=-1)) + 1)}, arrays)


class Held(Locked):
    """An estimator whose learner is pickled as arrays. Reading copies them: those of a memory map are read-only."""

    _held: str
    """The attribute that has the learner, or None."""

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if state.get(self._held) is not None:
            state[self._held] = described(state[self._held])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.get(self._held) is not None:
            state = {**state, self._held: revived(*state[self._held])}
        getattr(super(), "__setstate__", vars(self).update)(state)


def refuse_other(mine: Any, other: Any, parameters: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Refuse to merge an estimator of another type, or with other parameters."""
    differing = [name for name, value in parameters.items() if differs(others.get(name), value)]
    if type(mine) is not type(other) or differing:
        raise OptionError(f"merge: the other has another {', '.join(differing) or 'type'}.")


def differs(a: Any, b: Any) -> bool:
    """Return True if two values of a parameter differ."""
    return not (a is b or bool(np.array_equal(np.asarray(a, dtype=object), np.asarray(b, dtype=object))))


def described(model: Learner | ManyClasses) -> tuple[dict[str, Any], Arrays]:
    """Return a learner as a header and arrays, for a model file or a pickle; ``revived`` inverts this."""
    kind = "learner" if isinstance(model, Learner) else "classes"
    return {"kind": kind, **model._header()}, dict(model._arrays())


def revived(header: Mapping[str, Any], arrays: Arrays) -> Learner | ManyClasses:
    """Return the learner of ``described``, with its own arrays."""
    if header.get("kind") not in ("learner", "classes"):
        raise ModelFileError(f"it holds a {header.get('kind')!r} where a learner should be.")
    rest = {name: value for name, value in header.items() if name != "kind"}
    model: Learner | ManyClasses = model_file.build(model_file.Content(header["kind"], rest, arrays, {}))
    return model
