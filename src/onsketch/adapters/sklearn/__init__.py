"""Learners as scikit-learn estimators, and streaming PCA as a transformer.

``OnlineClassifier`` and ``OnlineRegressor`` take a method and its options, as :func:`onsketch.learner` does;
``SketchedPCA`` and ``FrequentDirections`` keep the leading directions of a stream of rows. All have ``partial_fit``,
and keep sparse matrices sparse.

Needs scikit-learn: ``pip install 'onsketch[sklearn]'``.
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("onsketch.sklearn needs scikit-learn: pip install 'onsketch[sklearn]'") from error

from onsketch.adapters.sklearn.classifier import OnlineClassifier
from onsketch.adapters.sklearn.pca import FrequentDirections, SketchedPCA
from onsketch.adapters.sklearn.regressor import OnlineRegressor

__all__ = ["FrequentDirections", "OnlineClassifier", "OnlineRegressor", "SketchedPCA"]
