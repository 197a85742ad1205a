"""Learners as River estimators: rows are dictionaries whose features come, go and change their order.

Needs River: ``pip install 'onsketch[river]'``; ``learn_many`` and similar methods need pandas, as in River itself.
"""

try:
    import river as _river  # noqa: F401
except ImportError as error:
    raise ImportError("onsketch.river needs River: pip install 'onsketch[river]'") from error

from onsketch.adapters.river.classifier import OnlineClassifier
from onsketch.adapters.river.regressor import OnlineMultiTargetRegressor, OnlineRegressor

__all__ = ["OnlineClassifier", "OnlineMultiTargetRegressor", "OnlineRegressor"]
