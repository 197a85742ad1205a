"""Many classes in one pass with named methods: one learner for each class, or one sketch for all.

>>> from onsketch.learners.multiclass import OneVersusRest, SharedSketch
>>> [model.n_classes for model in (OneVersusRest("adagrad", 26), SharedSketch("rfd-son", 26))]
[26, 26]
"""

from onsketch.learners.multiclass.base import ManyClasses
from onsketch.learners.multiclass.one_vs_rest import OneVersusRest
from onsketch.learners.multiclass.shared import SharedSketch

__all__ = ["ManyClasses", "OneVersusRest", "SharedSketch"]
