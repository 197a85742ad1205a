"""Features and labels in scales of their own, before any learner: ``scaling="magnitude"``.

``law.py`` scales rows by the law of ``core/scaling.py``, ``stage.py`` decides when scales change. ``learner.py`` and
``kernel.py`` put the stage before a learner and take the scales out of its weights.
"""
