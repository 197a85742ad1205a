"""Tolerances: the bounds below which a number counts as zero and above which it is refused."""

CUTOFF = 1e-12
"""Eigenvalues below ``CUTOFF * largest`` count as zero, wherever a rank, a root, a residual or a
pseudo-inverse is decided (a relative 1e-6 in terms of singular values and lengths)."""

RESOLUTION = {"float64": CUTOFF, "float32": 1e-5}
"""By the type of a sketch's rows: the share of its largest energy below which they cannot tell an energy from 0.

Rows in float32 are rounded whenever they change, by 6e-8 of their entries. Between two computations of the small
matrices from the rows these errors add up to some 1e-6 of the largest energy."""

STEEPEST = {"float64": 1e146, "float32": 1e15}
"""Largest part of a gradient in the precision of a learner's state: the squares of many can still be summed up."""

LARGEST = 1e150
"""Largest magnitude of an input value, a row's length or an update: what float64 can still square."""

LONGEST_ROW = 100.0 * LARGEST
"""Longest row of a sketch that a file may hold: that of ten thousand rows as long as rows may be."""
