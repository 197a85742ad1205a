"""Learning in the space of a kernel; it lives in ``onsketch.learners.kernel``."""

from onsketch.learners.kernel import *  # noqa: F403
from onsketch.learners.kernel import __all__  # noqa: F401
