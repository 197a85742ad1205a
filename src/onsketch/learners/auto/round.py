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
from onsketch.core.losses import SQUARED, in_unit
from onsketch.core.scaling import CUT
from onsketch.jit.decorators import inlined, inner, kernel
from onsketch.learners.auto import pool as pools
from onsketch.learners.auto.columns import bring_row, follow_row, has_room, ridge_of, sketch_products
from onsketch.learners.auto.first_order import fill_steps, first_order_steps, solve_steps
from onsketch.learners.auto.labels import Label, count_label, mixed, see_label
from onsketch.learners.auto.metric import (
    apply_metric,
    change,
    exact_leverages,
    exact_step,
    sketch_leverage,
    sketch_step,
    worth_exact,
)
from onsketch.learners.auto.mixing import learn_mixture
from onsketch.learners.auto.row import (
    correct_margins,
    list_row,
    margins_predicted,
    scale_again,
    scale_row,
    scale_to_length,
    visit,
)
from onsketch.learners.auto.state import (
    DONE,
    EARLY_LABELS,
    FADE,
    FADED,
    FARTHEST,
    FIRST,
    LARGEST_WEIGHT,
    LEAST_FADE,
    LONG,
    MARGIN,
    NEWTON,
    NORM_LEAP,
    OUTPUTS,
    OWN,
    RIDGES,
    RUN,
    SLIGHT,
    SQUARE,
    WORTH,
)

LEAST_THIN = 1e-12
"""Energies are rewritten when forgetting has left this share."""


@kernel
def learn_rows(lanes, setup, state, mixture, pool, pooled, scratch, rows, labels, weights, out):
    """Play the rounds of a block; returns how many, ``running[status]`` says what stopped it before the end.

    Shapes: indptr (n + 1,), labels and weights (n,), out (n, K): margins, or log-probabilities of classes, predicted
    before each row was learned.
    """
    run, indptr = state.running, rows[0]
    exact = state.gram.shape[0] == 0
    classes = 1 if len(lanes) == 1 else int(run[RUN.classes])
    if run[RUN.status] >= RIDGES:  # exact metrics wait for upkeep
        return 0
    run[RUN.status] = DONE
    for i in range(indptr.size - 1):
        y, weight = labels[i], weights[i]
        # 1 Room, and refusals: nothing has been written so far.
        if abs(y) > setup.largest or weight > min(LARGEST_WEIGHT, setup.largest * setup.largest):
            return i
        listed, newest = int(run[RUN.listed]), newest_slot(run, rows, i)
        if exact and (newest + 1 > state.metrics.shape[2] or not worth_exact(classes, newest + 1)):
            run[RUN.status] = SQUARE
            return i
        count = list_row(state, scratch, rows, i)
        room = listed + indptr[i + 1] - indptr[i] <= state.listed.size  # all may become centred
        if count < 0 or not room or (not exact and not has_room(state, count + 1)):
            run[RUN.status] = LONG
            return i
        size = newest + 1 if exact else 0
        # 2 Predict by what is known so far.
        if not exact:
            bring_row(state, scratch, count)
        common, known = math.exp(run[RUN.common]), run[RUN.values] > 0.0
        far = margins_predicted(lanes, setup, state, scratch, count, classes, exact, common)
        if not combine_margins(lanes, setup, state, mixture, pool, pooled, scratch, classes, out[i]):
            return i
        # 3 Scales, and the row in them at the length at which it is learned.
        if exact and run[RUN.used] > 0.0:
            start_metrics(state, int(run[RUN.seen]) + 1, size, classes)
        run[RUN.seen] = newest
        moved, again = visit(setup, state, scratch, count, listed, classes, exact, size)
        if not known:
            common = math.exp(run[RUN.common])
        if again or far or not known:
            scale_again(lanes, setup, state, scratch, count, classes, exact, common)
        elif moved > 0:
            correct_margins(setup, state, scratch, count, classes, moved, common)
        square, wides = scratch.sums[0], scratch.sums[2]
        if start_lengths(state, square, wides, exact, size, classes):
            scale_again(lanes, setup, state, scratch, count, classes, exact, common)
        one = scale_to_length(lanes, setup, state, scratch, count, classes)
        run[RUN.rounds] += 1.0
        # 4 The label, and the mixture.
        if len(lanes) == 1:
            label = see_label(setup, run, y, weight)
            learn_label(setup, run, mixture, scratch, one, label, y, out[i, 0])
            shares = mixture.shares
        else:
            label = Label(0.0, 0.0, 1.0, y, weight)
            age = run[RUN.rounds] - 1.0
            if setup.forget < 1.0:
                age = min(age, pools.FADE / (1.0 - setup.forget))
            pools.teach(pool, pooled, int(y), classes, weight, age)
            shares = pool.shares
        # 5 The experts.
        learn_experts(lanes, setup, state, scratch, shares, count, classes, exact, size, label)
        # 6 Running figures.
        if len(lanes) == 1:
            count_label(setup, state, y, label)
        status = follow_lengths(state, scratch, exact, size, classes, square, wides)
        if setup.forget < 1.0:
            status = fade(setup, state, status)
        if not exact:
            follow_row(state, scratch, count, status)
        elif status != DONE:
            run[RUN.status] = status
            return i + 1
    return indptr.size - 1


@inlined
def newest_slot(run, rows, i):
    """Return the number of features seen after row i."""
    indptr, slots, _ = rows
    newest = int(run[RUN.seen])
    for b in range(indptr[i], indptr[i + 1]):
        newest = max(newest, slots[b] + 1)
    return newest


@inlined
def combine_margins(lanes, setup, state, mixture, pool, pooled, scratch, classes, out):
    """Fill the prediction from the experts' margins; returns False if one of them is not finite."""
    finite = True
    if len(lanes) == 1:
        out[0] = mixed(setup, state.running, mixture, scratch.before)
    else:
        pools.combine(pool, pooled, classes, out)
        for o in range(OUTPUTS):
            for k in range(classes):
                finite = finite and math.isfinite(scratch.before[o, k])
    for k in range(classes):
        finite = finite and math.isfinite(out[k])
    return finite


@inlined
def start_lengths(state, square, wides, exact, size, classes):
    """Start the typical squared lengths; returns True at the first row with a length."""
    run = state.running
    if run[RUN.wide] == 0.0:
        run[RUN.wide] = wides
    if run[RUN.norm] > 0.0 or square == 0.0:
        return False
    run[RUN.norm] = run[RUN.used] = square
    run[RUN.start] = run[RUN.rounds]
    if exact:
        start_metrics(state, 0, size, classes)
    return True


@inner
def start_metrics(state, low, size, classes):
    """Start the metrics of the slots from ``low`` on from their ridges."""
    for e in range(NEWTON):
        for k in range(classes):
            for j in range(low, size):
                state.metrics[e, k, j, j] = 1.0 / ridge_of(state.running, True, e)


@inner
def learn_label(setup, run, mixture, scratch, one, label, y, predicted):
    """Let the mixture of one output learn from the margins, in units of labels and within their range."""
    t, heaviest, unit = run[RUN.rounds], run[RUN.heaviest], label.unit
    if label.weight > heaviest and not setup.counts:
        run[RUN.heaviest] = heaviest = 2.0 * heaviest
    h = min(label.weight, heaviest) if not setup.counts else label.weight
    if setup.loss.code == SQUARED and t > 1.0:  # before the first label nothing is known of labels
        away = min(abs(y - predicted), setup.largest)
        run[RUN.squares] = setup.forget * run[RUN.squares] + h * away * away
    run[RUN.weight] = setup.forget * run[RUN.weight] + h
    if unit <= 0.0 or (setup.real and t <= EARLY_LABELS):
        return
    low, high = -FARTHEST, FARTHEST
    if setup.real:
        room = MARGIN * (run[RUN.high] - run[RUN.low])
        low, high = (run[RUN.low] - room - label.centre) / unit, (run[RUN.high] + room - label.centre) / unit
    for o in range(OUTPUTS):
        scratch.before[o, 0] = max(min(scratch.margins[o, 0] / unit, high), low)
    past = setup.forget, setup.forget * t / (t + FADE), run[RUN.weight] / (1.0 + FADE), heaviest
    learn_mixture(in_unit(setup.loss, unit), mixture, scratch.before, one, label.target / unit, h, past, scratch)


@inlined
def learn_experts(lanes, setup, state, scratch, shares, count, classes, exact, size, label):
    """Take the steps of all experts, and the row into metrics and energies."""
    run, loss, y, weight = state.running, setup.loss, label.target, label.weight
    worth = SLIGHT if setup.real or setup.counts else WORTH
    length, known = 0.0, run[RUN.norm] > 0.0
    for b in range(count + 1):
        length += scratch.own[b] * scratch.own[b]
    pace = weight * label.unit if loss.degree == 1 and len(lanes) == 1 else weight
    for e in range(NEWTON):
        scratch.leverages[e, 0] = 0.0
        if known and not exact:
            scratch.leverages[e, 0] = sketch_leverage(state, scratch, e, length)
    if known and exact:
        exact_leverages(state, scratch, size, classes, count, int(y) if len(lanes) == 0 else 0, length)
    fill_steps(lanes, loss, state, scratch, count, classes, y, weight, label.unit)
    if len(lanes) == 1:
        solve_steps(loss, setup.signs, state, scratch, y, weight, pace)
    if known and exact:
        for e in range(NEWTON):
            exact_step(lanes, worth, state, scratch, size, classes, e, y, weight, pace)
    elif known:
        sketch_step(lanes, state, scratch, shares, classes, count, y, weight, pace)
    first_order_steps(lanes, state, scratch, count, classes, y, weight)


@inlined
def follow_lengths(state, scratch, exact, size, classes, square, wides):
    """Follow the typical squared lengths; returns what is to be done for the ridges."""
    run, t = state.running, state.running[RUN.rounds]
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


@inner
def fade(setup, state, status):
    """Forget a share of the past; returns what is to be done."""
    run = state.running
    run[RUN.fade] *= setup.forget
    run[RUN.thin] *= setup.forget
    if run[RUN.thin] < LEAST_THIN:
        for j in range(int(run[RUN.seen]) + 1):
            for o in range(FIRST):
                state.energies[j, o] *= run[RUN.thin]
        run[RUN.thin] = 1.0
    return FADED if run[RUN.fade] < LEAST_FADE and status == DONE else status


@kernel
def predict_rows(lanes, setup, state, mixture, pool, pooled, scratch, rows, out):
    """Predict rows without learning: margins (n, 1), or log-probabilities of classes (n, K)."""
    exact = state.gram.shape[0] == 0
    classes = 1 if len(lanes) == 1 else int(state.running[RUN.classes])
    common = math.exp(state.running[RUN.common])
    for i in range(rows[0].size - 1):
        count = list_row(state, scratch, rows, i)
        margins_predicted(lanes, setup, state, scratch, count, classes, exact, common)
        combine_margins(lanes, setup, state, mixture, pool, pooled, scratch, classes, out[i])


@kernel
def leverage_rows(setup, state, mixture, scratch, rows, out):
    """Fill xᵀA⁻¹x of one output, averaged over the Newton experts by their shares."""
    run = state.running
    exact = state.gram.shape[0] == 0
    size = int(run[RUN.seen]) + 1
    total = mixture.shares[FIRST] + mixture.shares[FIRST + 1] + 1e-290
    for i in range(rows[0].size - 1):
        count = list_row(state, scratch, rows, i)
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
            out[i] += (mixture.shares[FIRST + e] + 0.5e-290) / total * lev
