"""Summaries of a stream of rows; they live in ``onsketch.sketches``."""

from onsketch.sketches import *  # noqa: F403
from onsketch.sketches import __all__  # noqa: F401
