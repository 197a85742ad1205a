"""The River estimators; they live in ``onsketch.adapters.river``."""

from onsketch.adapters.river import OnlineClassifier, OnlineMultiTargetRegressor, OnlineRegressor

__all__ = ["OnlineClassifier", "OnlineMultiTargetRegressor", "OnlineRegressor"]
