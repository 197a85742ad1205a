"""What all tests share."""

from hypothesis import settings

# The first call of a kernel compiles it, so that no deadline would mean anything.
settings.register_profile("onsketch", deadline=None, print_blob=True)
settings.load_profile("onsketch")
