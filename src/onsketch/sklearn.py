"""The scikit-learn estimators; they live in ``onsketch.adapters.sklearn``."""

from onsketch.adapters.sklearn import FrequentDirections, OnlineClassifier, OnlineRegressor, SketchedPCA

__all__ = ["FrequentDirections", "OnlineClassifier", "OnlineRegressor", "SketchedPCA"]
