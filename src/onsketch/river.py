"""The River estimators; they live in ``onsketch.adapters.river``."""

from onsketch.adapters.river import OnlineClassifier, OnlineRegressor

__all__ = ["OnlineClassifier", "OnlineRegressor"]
