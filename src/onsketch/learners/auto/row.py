"""A row: its entries, their three forms, the experts' margins, and what its values change in the scales.

The forms are v in its own scale, the same times the feature's rarity, and the wide form of the magnitude in use.
"""

from __future__ import annotations

import math

from onsketch.core import scaling
from onsketch.core.scaling import (
    CENTRE,
    CUT,
    MAGNITUDE,
    MEAN,
    MOVED,
    PLACE,
    RESCALED,
    SCALE,
    SIZE,
    SWITCHED,
    VALUES,
    WANTED,
)
from onsketch.jit.decorators import inlined, inner
from onsketch.jit.vectors import (
    fma,
    load,
    logarithms,
    magnitude,
    minus,
    plus,
    product,
    quotient,
    spread,
    store,
    total,
    where_less,
)
from onsketch.learners.auto.columns import add_column, class_heads, head_column, kept_rows, sketch_products
from onsketch.learners.auto.metric import change, start_anew
from onsketch.learners.auto.state import (
    BOLD,
    BROADEST,
    FIRST,
    FREE,
    NEWTON,
    OUTPUTS,
    OWN,
    PATIENCE,
    RARITY,
    RUN,
    STRANGE,
    WIDE,
)

LOGS = 1e5
"""Values of which the common scale is a mean; later ones count as one of so many."""
LEAST_SIZE = 1e-300
"""Logarithms are taken of magnitudes from this on."""


@inner
def list_row(state, scratch, rows, row):
    """List the centred features and then the other entries of a row; returns their number, −1 without room for them."""
    indptr, slots, values = rows
    low, high, listed = indptr[row], indptr[row + 1], int(state.running[RUN.listed])
    count, raw = listed, scratch.raw
    if listed + high - low > scratch.slots.size - 8:
        return -1
    for b in range(listed):
        scratch.slots[b], raw[b] = state.listed[b], 0.0
    for i in range(low, high):
        if values[i] != 0.0:
            j = slots[i] + 1
            place = int(state.figures[j, PLACE])
            if place > 0:
                raw[place - 1] = values[i]
            else:
                scratch.slots[count], raw[count] = j, values[i]
                count += 1
    for b in range(count, (count + 7) // 8 * 8):
        raw[b] = 0.0
    scaling.collect(state.figures, state.centred, count, scratch.slots, scratch.statistics, listed)
    return count


@inlined
def _clipped(x, low, high):
    """Return eight numbers within bounds."""
    x = where_less(x, low, low, x)
    return where_less(high, x, high, x)


@inner
def rarities(state, scratch, count):
    """Fill the factors of the row's features in the first expert, by the rows and values before this row."""
    one, entries = spread(1.0, 8), scratch.statistics
    rows, rarity, most = spread(state.running[RUN.rounds], 8), spread(RARITY, 8), spread(math.inf, 8)
    for at in range(0, count, 8):
        share = quotient(rows, _clipped(load(entries, VALUES * entries.shape[1] + at, 8), one, most))
        store(scratch.rarity, at, fma(rarity, logarithms(_clipped(share, one, most), 8), one))


@inner
def scale_row(setup, state, scratch, count, common, cut):
    """Fill the row in its three forms and its squared lengths; returns True if a value is beyond ``CUT``.

    The last entry is the constant's for the Newton experts.
    """
    used, sums, entries, width = state.running[RUN.used], scratch.sums, scratch.statistics, scratch.statistics.shape[1]
    zero, one, infinite, most = spread(0.0, 8), spread(1.0, 8), spread(math.inf, 8), spread(CUT, 8)
    low, high, by, far = spread(-cut, 8), spread(cut, 8), spread(1.0 / common, 8), spread(0.0, 8)
    least, largest = spread(1.0 / BROADEST, 8), spread(BROADEST, 8)
    owns, rares, wides = zero, zero, zero
    for at in range(0, count, 8):
        v, centre = load(scratch.raw, at, 8), load(entries, CENTRE * width + at, 8)
        scale, size = load(entries, SCALE * width + at, 8), load(entries, SIZE * width + at, 8)
        own = quotient(minus(v, centre), where_less(zero, scale, scale, infinite))
        wide = quotient(v, where_less(zero, size, size, infinite))
        far = where_less(most, magnitude(own), one, where_less(most, magnitude(wide), one, far))
        own = _clipped(own, low, high)
        rare = product(own, load(scratch.rarity, at, 8))
        wide = product(_clipped(wide, low, high), _clipped(product(size, by), least, largest))
        store(scratch.own, at, own)
        store(scratch.rare, at, rare)
        store(scratch.wide, at, wide)
        owns, rares, wides = fma(own, own, owns), fma(rare, rare, rares), fma(wide, wide, wides)
    sums[0], sums[1], sums[2] = total(owns), total(rares), total(wides)
    scratch.slots[count] = 0
    scratch.own[count] = math.sqrt(used) if setup.intercept else 0.0
    return total(far) > 0.0


@inner
def feature_margins(lanes, state, scratch, count, classes, exact):
    """Fill the margins before any factor, without the constant of the AdaGrads."""
    parts, weights = scratch.parts, state.weights
    if len(lanes) == 1:
        first = second = third = fourth = fifth = 0.0
        for b in range(count):
            j, own, wide = scratch.slots[b], scratch.own[b], scratch.wide[b]
            first += weights[j, OWN, 0] * scratch.rare[b]
            second += weights[j, WIDE, 0] * wide
            third += weights[j, BOLD, 0] * wide
            fourth += weights[j, FIRST, 0] * own
            fifth += weights[j, FIRST + 1, 0] * own
        parts[OWN, 0], parts[WIDE, 0], parts[BOLD, 0], parts[FIRST, 0], parts[FIRST + 1, 0] = (
            first, second, third, fourth, fifth
        )  # fmt: skip
    else:
        for o in range(OUTPUTS):
            for k in range(classes):
                parts[o, k] = 0.0
        for b in range(count):
            j = scratch.slots[b]
            for o in range(OUTPUTS):
                x = scratch.rare[b] if o == OWN else (scratch.wide[b] if o < FIRST else scratch.own[b])
                for k in range(classes):
                    parts[o, k] += weights[j, o, k] * x
    for e in range(NEWTON):
        for k in range(classes):
            parts[FIRST + e, k] += weights[0, FIRST + e, k] * scratch.own[count]
    if not exact:
        sketch_products(state, scratch, count)
        kept, heads = kept_rows(state), class_heads(state)
        for e in range(NEWTON):
            for k in range(classes):
                parts[FIRST + e, k] += scratch.packed[head_column(kept, heads, e, k)]
            for r in range(int(state.running[RUN.rows])):
                for k in range(classes):
                    parts[FIRST + e, k] += state.coefficients[e, r, k] * scratch.products[r]


@inner
def scale_again(lanes, setup, state, scratch, count, classes, exact, common):
    """Compute the row's forms and margins again, in new scales; rare, so it is compiled only once."""
    scale_row(setup, state, scratch, count, common, CUT)
    feature_margins(lanes, state, scratch, count, classes, exact)


@inlined
def lengths_learned(lanes, setup, run, sums):
    """Return the factors with which a row is learned: of own scales, with rarity, in the wide form, and the constant.

    Of several classes, rows are predicted in the length in which they are learned; of one output they are not.
    """
    used, factor = run[RUN.used], 1.0
    if (setup.signs or len(lanes) == 0) and used > 0.0:
        factor = math.sqrt(2.0 * used / (sums[0] + used))
    if len(lanes) == 1:
        return factor, factor, factor, factor if setup.intercept else 0.0
    by_rare = math.sqrt(run[RUN.norm] / sums[1]) if sums[1] > 0.0 else 0.0
    by_wide = math.sqrt(run[RUN.wide] / sums[2]) if sums[2] > 0.0 else 0.0
    return factor, by_rare, by_wide, 1.0 if setup.intercept else 0.0


@inner
def fill_margins(state, scratch, classes, factors, margins):
    """Fill the experts' margins of the row times these factors."""
    own, rare, wide, one = factors
    for o in range(OUTPUTS):
        by = rare if o == OWN else (wide if o < FIRST else own)
        for k in range(classes):
            margins[o, k] = by * scratch.parts[o, k] + (one * state.weights[0, o, k] if o < FIRST else 0.0)


@inlined
def margins_predicted(lanes, setup, state, scratch, count, classes, exact, common):
    """Fill the experts' margins before the row by what is known so far; returns what ``scale_row`` does."""
    rarities(state, scratch, count)
    far = scale_row(setup, state, scratch, count, common, math.inf if len(lanes) == 1 else CUT)
    feature_margins(lanes, state, scratch, count, classes, exact)
    factors = 1.0, 1.0, 1.0, 1.0 if setup.intercept else 0.0
    if len(lanes) == 0:
        factors = lengths_learned(lanes, setup, state.running, scratch.sums)
    fill_margins(state, scratch, classes, factors, scratch.before)
    return far


@inner
def follow_common(run, scratch, count):
    """Take the magnitudes in use of the row's values into the common magnitude."""
    width, zero, one = scratch.statistics.shape[1], spread(0.0, 8), spread(1.0, 8)
    most = spread(1.0 if run[RUN.values] >= 10.0 else math.inf, 8)
    common, away, met = spread(run[RUN.common], 8), zero, zero
    for at in range(0, count, 8):
        size, met_here = load(scratch.statistics, SIZE * width + at, 8), magnitude(load(scratch.raw, at, 8))
        met_here = where_less(zero, met_here, one, zero)
        size = where_less(size, spread(LEAST_SIZE, 8), spread(LEAST_SIZE, 8), size)
        here = _clipped(minus(logarithms(size, 8), common), minus(zero, most), most)
        away, met = fma(met_here, here, away), plus(met, met_here)
    run[RUN.values] += total(met)
    if run[RUN.values] > 0.0:
        run[RUN.common] += total(away) / min(run[RUN.values], LOGS)


@inlined
def visit(setup, state, scratch, count, listed, classes, exact, size):
    """Let the scales take in the row's values; features whose scale or centre has moved are rewritten.

    Returns how many entries have moved, and True if more than these entries is to be computed again.
    """
    run, entries, moved, rewritten, kept = state.running, scratch.statistics, 0, False, listed
    rows = run[RUN.rounds] + 1.0 if setup.intercept else math.inf  # without an intercept no feature is centred
    if scaling.follow(state.centred, count, scratch.raw, entries, listed, rows, scratch.order):
        for b in range(count):
            if entries[MOVED, b] > 0.0:
                scratch.moved[moved] = b
                moved += 1
                kept -= 1 if b < listed and entries[MOVED, b] >= SWITCHED else 0
                rewritten = move_entry(state, scratch, b, exact, size, classes) or rewritten
    scaling.keep(state.figures, count, scratch.slots, entries, listed)
    if kept < listed:
        run[RUN.listed] = scaling.close_ranks(state.figures, state.centred, state.listed, int(run[RUN.listed]))
    follow_common(run, scratch, count)
    if not exact:
        for b in range(count):
            j = scratch.slots[b]
            if state.places[j] < 0 and (entries[VALUES, b] >= PATIENCE or j < FREE):
                add_column(state, j)
    return moved, rewritten


@inner
def move_entry(state, scratch, b, exact, size, classes):
    """Give entry b the scale and the centre that its statistics ask for; returns True if this rewrites the feature."""
    run, figures, centred, entries = state.running, state.figures, state.centred, scratch.statistics
    j, place = scratch.slots[b], int(figures[scratch.slots[b], PLACE]) - 1
    used, before = entries[SCALE, b], entries[CENTRE, b]
    scale, centre = used, before
    if entries[MOVED, b] >= SWITCHED and place >= 0:
        scaling.leave(figures, entries, b, j)
        scale, centre = entries[MAGNITUDE, b], 0.0
    elif entries[MOVED, b] >= SWITCHED:
        listed = int(run[RUN.listed])
        scaling.join(figures, centred, entries, b, j, scratch.raw[b], listed)
        state.listed[listed] = j
        run[RUN.listed] = listed + 1.0
        scale, centre = entries[MAGNITUDE, b], scratch.raw[b]
    elif entries[MOVED, b] >= RESCALED:
        scale, centre = entries[WANTED, b], centred[MEAN, place] if place >= 0 else 0.0
    scaling.move(figures, centred, entries, b, j, centre, scale)
    if used == 0.0 or (scale == used and centre == before):
        return False
    r = used / scale
    if 1.0 / STRANGE < r < STRANGE:
        change(state, scratch, exact, size, classes, j, r, (before - centre) / scale)
    else:
        start_anew(state, scratch, exact, size, classes, j)
    return True


@inner
def correct_margins(setup, state, scratch, count, classes, moved, common):
    """Scale the row again, and correct the margins by the entries that have moved."""
    parts, before = scratch.parts, scratch.earlier
    for i in range(moved):
        b = scratch.moved[i]
        before[i, 0], before[i, 1], before[i, 2] = scratch.own[b], scratch.rare[b], scratch.wide[b]
    scale_row(setup, state, scratch, count, common, CUT)
    for i in range(moved):
        b = scratch.moved[i]
        j, own, rare = scratch.slots[b], scratch.own[b] - before[i, 0], scratch.rare[b] - before[i, 1]
        wide = scratch.wide[b] - before[i, 2]
        for o in range(OUTPUTS):
            x = rare if o == OWN else (wide if o < FIRST else own)
            for k in range(classes):
                parts[o, k] += state.weights[j, o, k] * x


@inlined
def scale_to_length(lanes, setup, state, scratch, count, classes):
    """Bring the row, its margins and its products with the sketch to the length learned; returns the constant."""
    factors = lengths_learned(lanes, setup, state.running, scratch.sums)
    fill_margins(state, scratch, classes, factors, scratch.margins)
    own, rare, wide, one = factors
    for b in range(count):
        scratch.own[b] *= own
        scratch.rare[b] *= rare
        scratch.wide[b] *= wide
    scratch.own[count] *= own
    scratch.rare[count] = scratch.wide[count] = one
    for b in range(count + 1, (count + 4) // 4 * 4):
        scratch.rare[b] = scratch.wide[b] = 0.0
    for r in range(int(state.running[RUN.rows])):
        scratch.products[r] *= own
    return one
