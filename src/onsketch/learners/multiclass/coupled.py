"""The methods that learn all classes at once by the log loss, and their learners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onsketch.learners.auto import classes as untuned
from onsketch.learners.multiclass.softmax import learner as softmax
from onsketch.learners.options import own_loss

COUPLED: dict[str, type[softmax.SoftmaxAuto] | type[untuned.AutoClasses]] = {
    "auto": softmax.SoftmaxAuto,
    "untuned": untuned.AutoClasses,
}


def couples(method: str, options: Mapping[str, Any]) -> bool:
    """Return True where this method learns all classes at once with these options."""
    concerns = {"auto": softmax.CONCERNS, "untuned": untuned.CONCERNS}.get(method, frozenset())
    fits = concerns.issuperset(options) and options.get("clip") is None
    return method in COUPLED and own_loss(options.get("loss", "logistic")) in ("logistic", "softmax") and fits
