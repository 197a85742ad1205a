"""Many classes in one pass: by softmax without tuning, one learner for each, or one sketch for all.

>>> from onsketch.learners.multiclass import OneVersusRest, SharedSketch, SoftmaxAuto
>>> [model.n_classes for model in (SoftmaxAuto("auto", 26), OneVersusRest("adagrad", 26), SharedSketch("rfd-son", 26))]
[26, 26, 26]
"""

from onsketch.learners.multiclass.base import ManyClasses
from onsketch.learners.multiclass.one_vs_rest import OneVersusRest
from onsketch.learners.multiclass.shared import SharedSketch
from onsketch.learners.multiclass.softmax import SoftmaxAuto

__all__ = ["ManyClasses", "OneVersusRest", "SharedSketch", "SoftmaxAuto"]
