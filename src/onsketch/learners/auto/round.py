"""A round: list what the row visits, predict, follow the scales, and let mixture and experts learn.

Rows are (indptr, slots, values) without the constant feature, whose slot is 0; slot s is row s + 1 of the state.
A row also visits the centred features that it lacks, with value 0. Kernels come in two forms of the same source: for
one output (``lanes = (0,)``, known when they are compiled) and for classes (``lanes = ()``).

Nothing can become infinite: values are cut at ten scales, labels and weights are checked before anything is written, so
a refused row leaves no trace.
"""

from __future__ import annotations

import math

from onsketch.core import scaling
from onsketch.core.implicit import implicit_steps, slopes_at
from onsketch.core.losses import SQUARED, in_unit, slope_unit
from onsketch.core.scaling import CENTRE, CENTRED, CUT, MAGNITUDE, MAGNITUDE_USED, SCALE, VALUES
from onsketch.core.softmax import fill_softmax, implicit_slopes
from onsketch.jit.decorators import inlined, inner, kernel
from onsketch.jit.vectors import fma, load, logarithms, product, quotient, root, spread, store, total, where_less
from onsketch.learners.auto import pool as pools
from onsketch.learners.auto.columns import (
    add_column,
    bring_row,
    class_heads,
    follow_row,
    has_room,
    head_column,
    kept_rows,
    ridge_of,
    sketch_products,
)
from onsketch.learners.auto.metric import (
    apply_metric,
    change,
    exact_leverages,
    exact_step,
    sketch_leverage,
    sketch_step,
    start_anew,
    worth_exact,
)
from onsketch.learners.auto.mixing import learn_mixture
from onsketch.learners.auto.state import (
    BOLD,
    BROADEST,
    DONE,
    EARLY_LABELS,
    FADE,
    FADED,
    FARTHEST,
    FIRST,
    FIRST_ENERGY,
    FREE,
    LARGEST_WEIGHT,
    LEAST_FADE,
    LEAST_RATE,
    LONG,
    MARGIN,
    NEWTON,
    NORM_LEAP,
    OUTPUTS,
    OWN,
    PATIENCE,
    RARITY,
    RIDGES,
    RUN,
    SQUARE,
    STEPS,
    STRANGE,
    WIDE,
)

_softmax = inner(fill_softmax.py_func)

LOGS = 1e5
"""Values of which the common scale is a mean; later ones count as one of so many."""
LEAST_THIN = 1e-12
LEAST_SIZE = 1e-300
"""Logarithms are taken of magnitudes from this on."""


@inner
def list_row(state, scratch, slots, values, low, high):
    """List the entries of a row and the centred features it lacks; returns their number, −1 without room for them."""
    count, listed = 0, int(state.running[RUN.listed])
    if high - low + listed + 8 > scratch.slots.size:
        return -1
    scratch.stamp[0] += 1
    stamp = scratch.stamp[0]
    for i in range(low, high):
        if values[i] != 0.0:
            j = slots[i] + 1
            scratch.slots[count], scratch.raw[count] = j, values[i]
            scratch.marks[j] = stamp
            count += 1
    for i in range(listed):
        j = state.listed[i]
        if scratch.marks[j] != stamp:
            scratch.slots[count], scratch.raw[count] = j, 0.0
            count += 1
    return count


@inlined
def _take_logs(x, count):
    """Replace the first numbers by their logarithms; there is room for whole vectors."""
    for b in range(count, (count + 7) // 8 * 8):
        x[b] = 1.0
    for at in range(0, count, 8):
        store(x, at, logarithms(load(x, at, 8), 8))


@inner
def rarities(state, scratch, count):
    """Fill the factors of the row's features in the first expert, by the rows and values before this row."""
    t, x = state.running[RUN.rounds], scratch.rarity
    for b in range(count):
        x[b] = max(t / max(state.figures[scratch.slots[b], VALUES], 1.0), 1.0)
    _take_logs(x, count)
    for b in range(count):
        x[b] = 1.0 + RARITY * x[b]


@inlined
def _scale_entry(state, scratch, b, common, cut):
    """Fill an entry in its three forms; returns True if it is beyond ``CUT``."""
    figures, v, x, y = state.figures[scratch.slots[b]], scratch.raw[b], 0.0, 0.0
    if figures[SCALE] > 0.0:
        x = (v - figures[CENTRE]) / figures[SCALE]
    size = figures[MAGNITUDE_USED]
    if size > 0.0:
        y = v / size
    far = not (abs(x) <= CUT and abs(y) <= CUT)
    if far:
        x, y = max(min(x, cut), -cut), max(min(y, cut), -cut)
    scratch.own[b], scratch.rare[b] = x, x * scratch.rarity[b]
    scratch.wide[b] = y * max(min(size / common, BROADEST), 1.0 / BROADEST)
    return far


@inner
def scale_row(setup, state, scratch, count, common, cut):
    """Fill the row in its three forms and its squared lengths; returns True if a value is beyond ``CUT``.

    The last entry is the constant's for the Newton experts.
    """
    used, far, sums = state.running[RUN.used], False, scratch.sums
    for b in range(count):
        far = _scale_entry(state, scratch, b, common, cut) or far
    sums[0] = sums[1] = sums[2] = 0.0
    for b in range(count):
        sums[0] += scratch.own[b] * scratch.own[b]
        sums[1] += scratch.rare[b] * scratch.rare[b]
        sums[2] += scratch.wide[b] * scratch.wide[b]
    scratch.slots[count] = 0
    scratch.own[count] = math.sqrt(used) if setup.intercept else 0.0
    return far


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
def margins_predicted(lanes, setup, state, scratch, count, classes, exact, common, margins):
    """Fill the experts' margins by what is known so far; returns what ``scale_row`` does."""
    rarities(state, scratch, count)
    far = scale_row(setup, state, scratch, count, common, math.inf if len(lanes) == 1 else CUT)
    feature_margins(lanes, state, scratch, count, classes, exact)
    factors = 1.0, 1.0, 1.0, 1.0 if setup.intercept else 0.0
    if len(lanes) == 0:
        factors = lengths_learned(lanes, setup, state.running, scratch.sums)
    fill_margins(state, scratch, classes, factors, margins)
    return far


@inner
def follow_common(run, logs, count):
    """Take the magnitudes of the row's values, in ``logs``, into the common magnitude."""
    if count == 0:
        return
    _take_logs(logs, count)
    known, total = run[RUN.values], 0.0
    for i in range(count):
        away = logs[i] - run[RUN.common]
        total += max(min(away, 1.0), -1.0) if known >= 10.0 else away
    run[RUN.values] = known + count
    run[RUN.common] += total / min(run[RUN.values], LOGS)


@inner
def visit(setup, state, scratch, count, classes, exact, size, t):
    """Let the scales take in the row's values; features whose scale or centre has moved are rewritten.

    Returns how many entries have a new scale, and True if more than these entries is to be computed again.
    """
    run, unlisted, met, moved, rewritten = state.running, 0, 0, 0, False
    for b in range(count):
        j, v = scratch.slots[b], scratch.raw[b]
        figures = state.figures[j]
        used, magnitude = figures[SCALE], figures[MAGNITUDE_USED]
        scaling.follow(figures, v)
        if setup.intercept:
            if figures[CENTRED] == 0.0 and figures[VALUES] > scaling.MOSTLY * t:
                figures[CENTRED] = 1.0
                state.listed[int(run[RUN.listed])] = j
                run[RUN.listed] += 1.0
            elif figures[CENTRED] == 1.0 and figures[VALUES] < scaling.RARELY * t:
                figures[CENTRED] = 2.0
                unlisted += 1
        centre, scale = scaling.wanted(figures)
        if used == 0.0:
            figures[SCALE], figures[CENTRE] = scale, centre
            rewritten = rewritten or (not exact and scale > 0.0 and state.places[j] >= 0)
        elif scaling.has_moved(figures, centre, scale) or (figures[CENTRED] == 2.0 and scale > 0.0):
            r = used / scale
            if 1.0 / STRANGE < r < STRANGE:
                change(state, scratch, exact, size, classes, j, r, (figures[CENTRE] - centre) / scale)
            else:
                start_anew(state, scratch, exact, size, classes, j)
            figures[SCALE], figures[CENTRE] = scale, centre
            rewritten = True
        running = figures[MAGNITUDE]
        if running > scaling.LEAP * magnitude or magnitude > scaling.LEAP * running:
            figures[MAGNITUDE_USED] = running
        if figures[SCALE] != used or figures[MAGNITUDE_USED] != magnitude:
            scratch.moved[moved] = b
            moved += 1
        if v != 0.0:
            scratch.logs[met] = max(figures[MAGNITUDE_USED], LEAST_SIZE)
            met += 1
        if not exact and state.places[j] < 0 and (figures[VALUES] >= PATIENCE or j < FREE):
            add_column(state, j)
    follow_common(run, scratch.logs, met)
    if unlisted > 0:
        kept = 0
        for i in range(int(run[RUN.listed])):
            j = state.listed[i]
            if state.figures[j, CENTRED] == 2.0:
                state.figures[j, CENTRED] = 0.0
            else:
                state.listed[kept] = j
                kept += 1
        run[RUN.listed] = kept
    return moved, rewritten


@inner
def correct_margins(state, scratch, classes, moved, common):
    """Compute again the entries that have a new scale, and what they add to margins and squared lengths."""
    sums, parts = scratch.sums, scratch.parts
    for i in range(moved):
        b = scratch.moved[i]
        j, own, rare, wide = scratch.slots[b], scratch.own[b], scratch.rare[b], scratch.wide[b]
        _scale_entry(state, scratch, b, common, CUT)
        sums[0] += scratch.own[b] * scratch.own[b] - own * own
        sums[1] += scratch.rare[b] * scratch.rare[b] - rare * rare
        sums[2] += scratch.wide[b] * scratch.wide[b] - wide * wide
        own, rare, wide = scratch.own[b] - own, scratch.rare[b] - rare, scratch.wide[b] - wide
        for o in range(OUTPUTS):
            x = rare if o == OWN else (wide if o < FIRST else own)
            for k in range(classes):
                parts[o, k] += state.weights[j, o, k] * x


@inner
def see_label(setup, run, y, label):
    """Fill the centre, the mean from it and the mean deviation of labels, this one included; signs are of size 1."""
    t = run[RUN.rounds]
    label[0], label[1], label[2] = 0.0, 0.0, 1.0
    if setup.counts:  # the centre is of margins, and the mean of counts
        label[0] = math.log(max(y, LEAST_RATE)) if t == 1.0 and setup.intercept else run[RUN.centre]
        label[1] = run[RUN.mean] + (y - run[RUN.mean]) / t
    elif setup.real:
        label[0] = y if t == 1.0 and setup.intercept else run[RUN.centre]
        if setup.intercept:
            label[1] = run[RUN.mean] + (y - label[0] - run[RUN.mean]) / t
        label[2] = run[RUN.unit] + (abs(y - label[0] - label[1]) - run[RUN.unit]) / t


@inner
def count_label(setup, state, y, label):
    """Take in the figures of a label; the centre follows the mean, and the constant of every expert with it."""
    run = state.running
    run[RUN.centre], run[RUN.mean], run[RUN.unit] = label[0], label[1], label[2]
    run[RUN.low], run[RUN.high] = min(run[RUN.low], y), max(run[RUN.high], y)
    if setup.signs or not setup.intercept:
        return
    away = math.log(max(label[1], LEAST_RATE)) - label[0] if setup.counts else label[1]
    if abs(away) > 0.5 * label[2]:
        for o in range(OUTPUTS):
            if o < FIRST:
                state.weights[0, o, 0] -= away
            elif run[RUN.used] > 0.0:
                state.weights[0, o, 0] -= away / math.sqrt(run[RUN.used])
        run[RUN.centre] += away
        run[RUN.mean] -= 0.0 if setup.counts else away


@inner
def bounds_of(setup, run):
    """Return the bounds of predictions: the clip, or the range of the labels seen and a margin."""
    low, high = -setup.clip, setup.clip
    if run[RUN.rounds] == 0.0:
        low = high = 0.0
    elif setup.bounded and setup.counts:
        low, high = -math.inf, math.log(max(run[RUN.high] + MARGIN * (run[RUN.high] - run[RUN.low]), 1.0))
    elif setup.bounded and not setup.signs:
        room = MARGIN * (run[RUN.high] - run[RUN.low])
        low, high = run[RUN.low] - room, run[RUN.high] + room
    return low, high


@inner
def mixed(setup, run, mixture, margins):
    """The prediction of one output from the experts' linear margins."""
    total = run[RUN.centre] + mixture.mix[OUTPUTS] * (1.0 if setup.signs or setup.counts else run[RUN.unit])
    for o in range(OUTPUTS):
        total += mixture.mix[o] * margins[o, 0]
    low, high = bounds_of(setup, run)
    return min(max(total, low), high)


@inner
def fill_steps(lanes, loss, state, scratch, count, classes, y, weight, unit):
    """Fill the AdaGrads' steps, and how far they reach, with one energy for each feature."""
    run, z, slopes, energies = state.running, scratch.margins, scratch.slopes, scratch.energies
    thin, label = run[RUN.thin], int(y) if len(lanes) == 0 else 0
    steep = slope_unit(loss, unit) if len(lanes) == 1 else 1.0
    if len(lanes) == 1:
        for o in range(OUTPUTS):
            scratch.ends[o] = z[o, 0]
        slopes_at(loss, scratch.ends, y, scratch.steep, FIRST)
    for b in range(count + 1):
        j = scratch.slots[b]
        for o in range(FIRST):
            energies[o, b] = state.energies[j, o]
    for o in range(FIRST):
        if len(lanes) == 1:
            slopes[o, 0] = scratch.steep[o]
        else:
            _softmax(z[o], classes, slopes[o])
            slopes[o, label] -= 1.0
        more = 0.0
        for k in range(classes):
            more += slopes[o, k] * slopes[o, k]
        norm, gain, first, eta = run[RUN.norm] if o == OWN else run[RUN.wide], 0.0, 0.0, 0.0
        if norm > 0.0:
            gain, first = weight * more / thin, FIRST_ENERGY * (steep * steep) / thin
            eta = STEPS[o] * unit / math.sqrt(norm)
        x = scratch.rare if o == OWN else scratch.wide
        reach = _scaled_steps(x, energies, scratch.by, o * energies.shape[1], count + 1, gain, first, thin)
        scratch.paces[o], scratch.reaches[o] = weight * eta, reach * eta


@inlined
def _scaled_steps(x, energies, by, start, count, gain, first, thin):
    """Take a row into the energies, and fill x/√energy; returns the sum of its products with x.

    After the row, x is 0 up to a whole vector.
    """
    reach, zero, scale, least = spread(0.0, 4), spread(0.0, 4), spread(thin, 4), spread(1e-290, 4)
    known, fresh = spread(gain, 4), spread(gain + first, 4)
    for b in range(0, count, 4):
        v, energy = load(x, b, 4), load(energies, start + b, 4)
        energy = fma(product(v, v), where_less(zero, energy, known, fresh), energy)
        store(energies, start + b, energy)
        step = quotient(v, root(fma(energy, scale, least)))
        store(by, start + b, step)
        reach = fma(v, step, reach)
    return total(reach)


@inner
def solve_steps(loss, signs, state, scratch, y, weight, pace):
    """The ends of all steps of one output. All are implicit, except the bold AdaGrad's on signs.

    Rows of many rare words are learned better by steps that overshoot, but a heavy row overshoots no more than one of
    weight 1.
    """
    reaches, steep, slopes = scratch.reaches, scratch.steep, scratch.slopes
    for o in range(FIRST):
        reaches[o] *= weight
    for e in range(NEWTON):
        lev = scratch.leverages[e, 0]
        if state.gram.shape[0] == 0:
            lev = max(lev, 0.0) / state.running[RUN.fade]
        reaches[FIRST + e] = pace * lev
    implicit_steps(loss, scratch.ends, y, reaches, steep, scratch.bends, OUTPUTS)
    bold = slopes[BOLD, 0]
    for o in range(OUTPUTS):
        slopes[o, 0] = steep[o]
    if signs and abs(bold) > max(weight, 1.0) * abs(steep[BOLD]):
        slopes[BOLD, 0] = bold / max(weight, 1.0)


@inner
def first_order_steps(lanes, state, scratch, count, classes, y, weight):
    """Make the AdaGrads' steps; those of one output have been solved."""
    slopes, tau, by, energies = scratch.slopes, scratch.lengths, scratch.by, scratch.energies
    if len(lanes) == 0:
        for o in range(FIRST):
            for k in range(classes):
                tau[k] = scratch.reaches[o]
            implicit_slopes(scratch.margins[o], int(y), tau, weight, classes, slopes[o])
    for b in range(count + 1):
        j = scratch.slots[b]
        for o in range(FIRST):
            state.energies[j, o] = energies[o, b]
            step = scratch.paces[o] * by[o, b]
            for k in range(classes):
                state.weights[j, o, k] -= step * slopes[o, k]


@inner
def follow_lengths(lanes, state, scratch, exact, size, classes, square, wides, t):
    """Follow the typical squared lengths; returns what the caller must do for the ridges."""
    run = state.running
    run[RUN.wide] = scaling.typical(run[RUN.wide], wides, t)
    if run[RUN.norm] == 0.0:
        return DONE
    run[RUN.norm] = norm = scaling.typical(run[RUN.norm], square, t - run[RUN.start])
    leap, used = NORM_LEAP if exact else scaling.LEAP, run[RUN.used]
    if norm <= leap * used and used <= leap * norm:
        return DONE
    energy = state.energies[0, OWN]
    change(state, scratch, exact, size, classes, 0, math.sqrt(norm / used), 0.0)
    state.energies[0, OWN] = energy  # AdaGrad's constant is 1 whatever the length
    run[RUN.before], run[RUN.used] = used, norm
    return RIDGES


@inlined
def fits(setup, y, weight):
    """Return True where learning the row leaves everything finite."""
    return abs(y) <= setup.largest and weight <= LARGEST_WEIGHT


@inner
def scale_to(scratch, count, rows, factors):
    """Multiply the row in its three forms, and its products with the sketch, by the factors of its lengths."""
    own, rare, wide, one = factors
    for b in range(count):
        scratch.own[b] *= own
        scratch.rare[b] *= rare
        scratch.wide[b] *= wide
    scratch.own[count] *= own
    scratch.rare[count] = scratch.wide[count] = one
    for b in range(count + 1, (count + 4) // 4 * 4):
        scratch.rare[b] = scratch.wide[b] = 0.0
    for r in range(rows):
        scratch.products[r] *= own


@kernel
def learn_rows(lanes, setup, state, mixture, pool, pooled, scratch, indptr, slots, values, labels, weights, out):
    """Play the rounds of a block; returns how many, ``running[status]`` says what stopped it before the end.

    Shapes: indptr (n + 1,), labels and weights (n,), out (n, K): margins, or log-probabilities of classes, predicted
    before each row was learned.
    """
    run, loss = state.running, setup.loss
    exact = state.gram.shape[0] == 0
    classes = 1 if len(lanes) == 1 else int(run[RUN.classes])
    if run[RUN.status] >= RIDGES:  # exact metrics wait for upkeep
        return 0
    run[RUN.status] = DONE
    for i in range(indptr.size - 1):
        y, weight = labels[i], weights[i]
        # 1 Room, and refusals: nothing has been written so far.
        if not fits(setup, y, weight):
            return i
        newest = int(run[RUN.seen])
        for b in range(indptr[i], indptr[i + 1]):
            newest = max(newest, slots[b] + 1)
        if exact and (newest + 1 > state.metrics.shape[2] or not worth_exact(classes, newest + 1)):
            run[RUN.status] = SQUARE
            return i
        count = list_row(state, scratch, slots, values, indptr[i], indptr[i + 1])
        if count < 0 or (not exact and not has_room(state, count + 1)):
            run[RUN.status] = LONG
            return i
        t = run[RUN.rounds] + 1.0
        size = newest + 1 if exact else 0
        # 2 Predict by what is known so far.
        if not exact:
            bring_row(state, scratch, count)
        z, common, known = scratch.before, math.exp(run[RUN.common]), run[RUN.values] > 0.0
        far = margins_predicted(lanes, setup, state, scratch, count, classes, exact, common, z)
        if len(lanes) == 1:
            out[i, 0] = mixed(setup, run, mixture, z)
        else:
            pools.combine(pool, pooled, classes, out[i])
            for o in range(OUTPUTS):
                for k in range(classes):
                    if not math.isfinite(z[o, k]):
                        return i
        for k in range(classes):
            if not math.isfinite(out[i, k]):
                return i
        # 3 Scales, and the row in them.
        if exact and run[RUN.used] > 0.0:
            _start_metrics(state, int(run[RUN.seen]) + 1, size, classes)
        run[RUN.seen] = newest
        moved, rewritten = visit(setup, state, scratch, count, classes, exact, size, t)
        if not known:
            common = math.exp(run[RUN.common])
        if rewritten or far or not known:
            scale_again(lanes, setup, state, scratch, count, classes, exact, common)
        else:
            correct_margins(state, scratch, classes, moved, common)
        square, wides = scratch.sums[0], scratch.sums[2]
        if run[RUN.wide] == 0.0:
            run[RUN.wide] = wides
        if run[RUN.norm] == 0.0 and square > 0.0:  # the first row with a length
            run[RUN.norm] = run[RUN.used] = square
            run[RUN.start] = t - 1.0
            if exact:
                _start_metrics(state, 0, size, classes)
            scale_again(lanes, setup, state, scratch, count, classes, exact, common)
        factors = lengths_learned(lanes, setup, run, scratch.sums)
        fill_margins(state, scratch, classes, factors, scratch.margins)
        scale_to(scratch, count, int(run[RUN.rows]), factors)
        run[RUN.rounds] = t
        # 4 The label, and the mixture.
        label, unit, target, h = scratch.label, 1.0, y, weight
        if len(lanes) == 1:
            see_label(setup, run, y, label)
            unit, target = label[2], y - label[0]
            if setup.counts:  # with z = c + v the loss is e^c·(eᵛ − (y/e^c)·v) and a constant
                target, h = y / math.exp(label[0]), weight * math.exp(label[0])
            _count_mixture(setup, run, mixture, scratch, factors[3], target, h, unit, label[0], t)
            if loss.code == SQUARED:
                away = min(abs(y - out[i, 0]), setup.largest)
                if t > 1.0:  # before the first label nothing is known of labels
                    run[RUN.squares] = setup.forget * run[RUN.squares] + min(h, run[RUN.heaviest]) * away * away
            shares = mixture.shares
        else:
            age = t - 1.0 if setup.forget == 1.0 else min(t - 1.0, pools.FADE / (1.0 - setup.forget))
            pools.teach(pool, pooled, int(y), classes, weight, age)
            shares = pool.shares
        # 5 The experts.
        length = scratch.own[count] * scratch.own[count]
        for b in range(count):
            length += scratch.own[b] * scratch.own[b]
        pace = h * unit if loss.degree == 1 and len(lanes) == 1 else h
        for e in range(NEWTON):
            scratch.leverages[e, 0] = 0.0
            if run[RUN.norm] > 0.0 and not exact:
                scratch.leverages[e, 0] = sketch_leverage(state, scratch, e, length)
        if run[RUN.norm] > 0.0 and exact:
            exact_leverages(state, scratch, size, classes, count, int(y) if len(lanes) == 0 else 0, length)
        fill_steps(lanes, loss, state, scratch, count, classes, target, h, unit)
        if len(lanes) == 1:
            solve_steps(loss, setup.signs, state, scratch, target, h, pace)
        if run[RUN.norm] > 0.0 and exact:
            for e in range(NEWTON):
                exact_step(lanes, state, scratch, size, classes, e, target, h, pace)
        elif run[RUN.norm] > 0.0:
            sketch_step(lanes, state, scratch, shares, classes, count, target, h, pace)
        first_order_steps(lanes, state, scratch, count, classes, target, h)
        # 6 Running figures.
        if len(lanes) == 1:
            count_label(setup, state, y, label)
        status = follow_lengths(lanes, state, scratch, exact, size, classes, square, wides, t)
        if setup.forget < 1.0:
            run[RUN.fade] *= setup.forget
            run[RUN.thin] *= setup.forget
            if run[RUN.thin] < LEAST_THIN:
                for j in range(newest + 1):
                    for o in range(FIRST):
                        state.energies[j, o] *= run[RUN.thin]
                run[RUN.thin] = 1.0
            if run[RUN.fade] < LEAST_FADE and status == DONE:
                status = FADED
        if not exact:
            follow_row(state, scratch, count, status)
        elif status != DONE:
            run[RUN.status] = status
            return i + 1
    return indptr.size - 1


@inner
def _start_metrics(state, low, size, classes):
    """Start the metrics of the slots from ``low`` on from their ridges."""
    for e in range(NEWTON):
        for k in range(classes):
            for j in range(low, size):
                state.metrics[e, k, j, j] = 1.0 / ridge_of(state.running, True, e)


@inner
def _count_mixture(setup, run, mixture, scratch, one, target, weight, unit, centre, t):
    """Let the mixture of one output learn from the margins, in units of labels and within their range."""
    heaviest = run[RUN.heaviest]
    if weight > heaviest and not setup.counts:
        run[RUN.heaviest] = heaviest = 2.0 * heaviest
    h = min(weight, heaviest) if not setup.counts else weight
    keep = setup.forget * t / (t + FADE)
    run[RUN.weight] = setup.forget * run[RUN.weight] + h
    if unit <= 0.0 or (setup.real and t <= EARLY_LABELS):
        return
    low, high = -FARTHEST, FARTHEST
    if setup.real:
        room = MARGIN * (run[RUN.high] - run[RUN.low])
        low, high = (run[RUN.low] - room - centre) / unit, (run[RUN.high] + room - centre) / unit
    for o in range(OUTPUTS):
        scratch.before[o, 0] = max(min(scratch.margins[o, 0] / unit, high), low)
    count = run[RUN.weight] / (1.0 + FADE)
    past = setup.forget, keep, count, heaviest
    learn_mixture(in_unit(setup.loss, unit), mixture, scratch.before, one, target / unit, h, past, scratch)


@kernel
def predict_rows(lanes, setup, state, mixture, pool, pooled, scratch, indptr, slots, values, out):
    """Predict rows without learning: margins (n, 1), or log-probabilities of classes (n, K)."""
    exact = state.gram.shape[0] == 0
    classes = 1 if len(lanes) == 1 else int(state.running[RUN.classes])
    common = math.exp(state.running[RUN.common])
    for i in range(indptr.size - 1):
        count = list_row(state, scratch, slots, values, indptr[i], indptr[i + 1])
        margins_predicted(lanes, setup, state, scratch, count, classes, exact, common, scratch.before)
        if len(lanes) == 1:
            out[i, 0] = mixed(setup, state.running, mixture, scratch.before)
        else:
            pools.combine(pool, pooled, classes, out[i])


@kernel
def leverage_rows(setup, state, mixture, scratch, indptr, slots, values, out):
    """Fill xᵀA⁻¹x of one output, averaged over the Newton experts by their shares."""
    run = state.running
    exact = state.gram.shape[0] == 0
    size = int(run[RUN.seen]) + 1
    trusted = mixture.shares[FIRST] + mixture.shares[FIRST + 1] + 1e-290
    for i in range(indptr.size - 1):
        count = list_row(state, scratch, slots, values, indptr[i], indptr[i + 1])
        scale_row(setup, state, scratch, count, math.exp(run[RUN.common]), CUT)
        length = scratch.sums[0] + scratch.own[count] * scratch.own[count]
        if not exact:
            sketch_products(state, scratch, count)
        out[i] = 0.0
        for e in range(NEWTON):
            if exact:
                q, factors = scratch.along, scratch.factors
                lev = apply_metric(state, e, 0, scratch.slots, scratch.own, count + 1, size, factors, q)
                lev /= run[RUN.fade]
            else:
                lev = sketch_leverage(state, scratch, e, length)
            out[i] += (mixture.shares[FIRST + e] + 0.5e-290) / trusted * lev
