"""The methods that learn all classes at once by the log loss, and their learners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onsketch.learners.auto.classes import CONCERNS, AutoClasses
from onsketch.learners.options import own_loss

COUPLED = {"auto": AutoClasses}


def couples(method: str, options: Mapping[str, Any]) -> bool:
    """Return True where this method learns all classes at once with these options."""
    fits = CONCERNS.issuperset(options) and options.get("clip") is None
    return method in COUPLED and own_loss(options.get("loss", "logistic")) in ("logistic", "softmax") and fits
