"""Many classes in one pass: one learner for each, or one sketch for all.

>>> from onsketch.learners.multiclass import OneVersusRest, SharedSketch
>>> OneVersusRest("adagrad", 26).n_classes, SharedSketch("rfd-son", 26).n_classes
(26, 26)
"""

from onsketch.learners.multiclass.base import ManyClasses
from onsketch.learners.multiclass.one_vs_rest import OneVersusRest
from onsketch.learners.multiclass.shared import SharedSketch

__all__ = ["ManyClasses", "OneVersusRest", "SharedSketch"]
