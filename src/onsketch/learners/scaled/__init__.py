"""Features and labels in scales of their own, before any learner: ``scaling="magnitude"``.

``scales.py`` follows the magnitudes, ``learner.py`` puts them before a learner and takes them out of its weights.
"""
