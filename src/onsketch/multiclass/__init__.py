"""Many classes in one pass: one learner for each, or one sketch for all.

>>> from onsketch.multiclass import OneVersusRest, SharedSketch
>>> OneVersusRest("adagrad", 26).n_classes, SharedSketch("rfd-son", 26).n_classes
(26, 26)
"""

from onsketch.multiclass.base import ManyClasses
from onsketch.multiclass.one_vs_rest import OneVersusRest
from onsketch.multiclass.shared import SharedSketch

__all__ = ["ManyClasses", "OneVersusRest", "SharedSketch"]
