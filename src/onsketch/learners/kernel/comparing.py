"""Products and distances between sparse rows, compiled."""

from __future__ import annotations

from onsketch.core.kernels import ABSOLUTE, PRODUCTS
from onsketch.jit.decorators import kernel


@kernel
def compare(form, start, stop, query, kept, work, out):
    """Fill ``out`` with what a kernel needs of each of the rows start..stop with each of the rows kept.

    ``query`` is (indptr, slots, values, lengths) of the rows, ``kept`` (indptr, slots, values, count) of those kept.

    A row is spread out over ``work`` (zeros before and after), and every row kept is read along its non-zeros:
    O(non-zeros of all rows kept) for a row. ``lengths`` holds |x|² or |x|₁ of the rows, features unknown included.
    """
    indptr, slots, values, lengths = query
    kept_ptr, kept_slots, kept_values, count = kept
    for i in range(start, stop):
        for j in range(indptr[i], indptr[i + 1]):
            work[slots[j]] = values[j]
        for p in range(count):
            total = 0.0
            if form == PRODUCTS:
                for j in range(kept_ptr[p], kept_ptr[p + 1]):
                    total += kept_values[j] * work[kept_slots[j]]
            elif form == ABSOLUTE:
                for j in range(kept_ptr[p], kept_ptr[p + 1]):
                    x = work[kept_slots[j]]
                    total += abs(x - kept_values[j]) - abs(x)
                total = max(total + lengths[i], 0.0)
            else:
                for j in range(kept_ptr[p], kept_ptr[p + 1]):
                    total += kept_values[j] * (kept_values[j] - 2.0 * work[kept_slots[j]])
                total = max(total + lengths[i], 0.0)
            out[i - start, p] = total
        for j in range(indptr[i], indptr[i + 1]):
            work[slots[j]] = 0.0


@kernel
def row_lengths(form, indptr, values, out):
    """|x|₁ of each row for absolute distances, else |x|²."""
    for i in range(out.size):
        total = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            total += abs(values[j]) if form == ABSOLUTE else values[j] * values[j]
        out[i] = total
