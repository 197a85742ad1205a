"""The learner for a task: one of signs or numbers, or one of many classes."""

from __future__ import annotations

import math
from typing import Any

import onsketch
from onsketch.core.errors import OptionError
from onsketch.core.losses import LOSSES
from onsketch.data.task import Task
from onsketch.learners.options import LEVELS, own_loss
from onsketch.learners.recommended import fitting_loss, recommended_options


def make_learner(task: Task, method: str, /, *, plain: bool = False, **options: Any) -> Any:
    """The learner of this method for a task, with the loss that fits it unless one is given.

    It is ``onsketch.safe_learner`` with the same options, or ``onsketch.learner`` where it is to be ``plain``.
    """
    if "loss" in options:
        options["loss"] = own_loss(options["loss"])
    given = {"loss": fitting_loss(method, task.default_loss), **options}
    if not task.many:
        return (onsketch.learner if plain else onsketch.safe_learner)(method, **given)
    from onsketch.learners.methods import METHODS
    from onsketch.learners.multiclass import OneVersusRest
    from onsketch.learners.multiclass.coupled import COUPLED

    if method in COUPLED and options.get("loss", "logistic") in ("logistic", "softmax"):
        return COUPLED[method](method, 0, open_ended=True, **options)
    if not plain:
        given = recommended_options(method, given)
    elif method not in COUPLED and "clip" in METHODS[method].concerns:
        given.setdefault("clip", None)  # of two classes whose margins are both clipped neither is the larger
    return OneVersusRest(method, 0, open_ended=True, **given)


def asked_task(task: str | None, loss: str | None) -> str | None:
    """Return the requested task; regression for losses of numbers, so that a few integers are not taken as classes."""
    loss = own_loss(loss)
    if task not in (None, "regression") and loss in LOSSES and LOSSES[loss].labels == "count":
        raise OptionError(
            f"task={task!r}: loss={loss!r} learns counts, not classes; leave the task out.", task=task, loss=loss
        )
    numbers = loss in LOSSES and LOSSES[loss].labels != "sign" and loss != "squared"
    return "regression" if task is None and numbers else task


def one_of(learner: Any) -> Any:
    """The learner itself, or one of those of a learner of classes, for what they all have in common."""
    if not hasattr(learner, "learners"):
        return learner
    return getattr(learner, "unmet", None) or learner.learners[0]


def loss_of(learner: Any) -> str:
    """The loss that a learner minimises."""
    found = getattr(learner, "loss", None)
    return str(found) if found is not None else str(one_of(learner).loss)


def features_seen(learner: Any) -> int | None:
    """Return the number of features that a learner has seen; None for a kernel learner, which keeps points."""
    seen = getattr(learner, "features_seen", None)
    try:
        return int(one_of(learner).coefficients()[0].size if seen is None else seen)
    except OptionError:
        return None


def grown(learner: Any) -> tuple[str, str]:
    """Describe the size of a model in words: features seen, or the points that a kernel learner keeps."""
    seen = features_seen(learner)
    if seen is None:
        return "points", f"{learner.diagnostics()['rows_kept']:,} kept"
    return "features", f"{seen:,} seen"


def collisions(seen: int, bits: int) -> float:
    """Estimate the share of names that were hashed to a column of another name, from the columns in use.

    If n names fall on M = 2^bits columns, M(1 − exp(−n/M)) columns are expected in use.

    >>> round(collisions(83_122, 18), 2)  # of 100,000 names
    0.17
    """
    used = min(seen / (1 << bits), 1.0 - 1e-9)
    return 1.0 + used / math.log1p(-used) if used > 0.0 else 0.0


def described(learner: Any) -> str:
    """The method in a line."""
    method = one_of(learner).method
    many = ", one learner for each class" if hasattr(learner, "learners") else ""
    return f"{method.name}: {method}{many}"


def in_force(learner: Any) -> str:
    """The options of a learner as they are at work, in words."""
    words = []
    for name in sorted(learner.method.concerns):
        value = getattr(learner.options, name, None)
        if name in LEVELS and learner.options.loss not in LEVELS[name]:
            continue
        if name == "ridge" and value is None:
            value = f"{learner.ridge:.6g} now, by the data" if hasattr(learner, "ridge") else "by the data"
        elif name == "clip":
            value = {None: "no bound", "default": "no bound", "labels": "the range of the labels"}.get(value, value)
        elif name == "n_features" and value is None:
            value = f"{learner.n_features:,} so far"
        elif value is None:
            value = {"curvature": "by the loss", "curvature_schedule": "by the ridge", "box": "none"}.get(
                name, "by itself"
            )
        elif value is True or value is False:
            value = "yes" if value else "no"
        words.append(f"{name.replace('_', ' ')} {value}")
    return ", ".join(words)
