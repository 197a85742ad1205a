"""The race behind ``onsketch compare``, with learners whose mistakes are known beforehand."""

import itertools
import math

import numpy as np
import pytest

from onsketch.errors import OptionError, UpdateError
from onsketch.jobs.compare import (
    CONTENDERS,
    PUBLISHED,
    Contender,
    Race,
    Track,
    clipped,
    contender,
    embedded,
)
from onsketch.jobs.standings import Score, Standing, verdict


class Wrong:
    """Errs on one row in ``every``, and gives up at row ``until``."""

    loss = "squared"

    def __init__(self, name, *, every=1, until=math.inf, sketch_size=None, **options):
        self.every, self.until, self.sketch_size, self.row = every, until, sketch_size, 0

    def learn(self, X, y, sample_weight=None):
        rows = self.row + np.arange(len(y))
        self.row += len(y)
        if self.row > self.until:
            raise UpdateError("not finite", row=0)
        return np.where(rows % self.every == 0, -y, y)


def track(rows=100, block=30, name="a"):
    y = np.where(np.arange(rows) % 3 == 0, 1.0, -1.0)
    return Track(name, [(np.ones((len(part), 2)), part, None) for part in np.split(y, range(block, rows, block))])


def race(*contenders, **options):
    return Race([track()], contenders, make=Wrong, signs=True, **options)


def final(entered):
    *_, (rows, standings) = entered.run()
    assert rows == entered.rows == 100
    return standings


def test_the_best_setting_is_kept():
    (standing,) = final(race(Contender("fd-son", ({"every": 2}, {"every": 10}, {"every": 5}))))
    assert standing.tried == 3
    assert standing.scores[0].setting == {"every": 10}
    assert standing.scores[0].error == pytest.approx(0.1)
    assert standing.loss == pytest.approx(0.4)  # (−1 − 1)² on one row in ten
    assert standing.scores[0].total == pytest.approx(40.0)
    assert standing.microseconds > 0


def test_standings_are_sorted_by_loss():
    standings = final(race(Contender("ogd", ({"every": 2},)), Contender("fd-son", ({"every": 50},))))
    assert [standing.name for standing in standings] == ["fd-son", "ogd"]


def test_progress_is_reported_after_each_block():
    assert [rows for rows, _ in race(Contender("ogd", ({"every": 2},))).run()] == [30, 60, 90, 100]


def test_curves_tell_rows_time_and_loss():
    (standing,) = final(race(Contender("ogd", ({"every": 2},))))
    curve = standing.scores[0].curve
    assert [point.rows for point in curve] == [30, 60, 90, 100]
    assert all(later.seconds >= sooner.seconds for sooner, later in itertools.pairwise(curve))
    assert {point.error for point in curve} == {0.5}


def test_long_curves_are_thinned():
    y = np.ones(1)
    long = Track("a", [(np.ones((1, 2)), y, None)] * 2000)
    *_, (_, (standing,)) = Race([long], [Contender("ogd", ({"every": 2},))], make=Wrong, signs=True).run()
    assert len(standing.scores[0].curve) <= 512
    assert standing.scores[0].curve[-1].rows == 2000


def test_a_setting_that_stops_being_finite_drops_out():
    (standing,) = final(race(Contender("ogd", ({"every": 50, "until": 70}, {"every": 2}))))
    assert standing.scores[0].setting == {"every": 2}
    assert standing.scores[0].error == pytest.approx(0.5)


def test_a_contender_without_a_finite_setting_comes_last():
    lost, fine = Contender("ogd", ({"every": 50, "until": 70},)), Contender("fd-son", ({"every": 2},))
    *_, last = final(race(lost, fine))
    assert (last.name, last.loss, last.scores[0].setting) == ("ogd", math.inf, None)
    assert "diverged" in verdict([last])


def test_options_go_to_those_they_concern():
    seen = {}

    def make(name, **options):
        seen[name] = options
        return Wrong(name, **options)

    both = [Contender("fd-son"), Contender("adagrad")]
    Race([track()], both, {"sketch_size": 7, "l1": 0.5}, make=make)
    assert seen == {"fd-son": {"sketch_size": 7}, "adagrad": {"l1": 0.5}}
    with pytest.raises(OptionError, match="betas concerns none of fd-son, adagrad"):
        Race([track()], both, {"betas": (0.9, 0.9)}, make=make)


def test_a_grid_is_every_combination_that_concerns_the_method():
    grid = {"ridge": [1.0, 2.0], "step_size": [0.1], "sketch_size": [5, 10]}
    assert len(contender("fd-son", grid).settings) == 4
    assert contender("adagrad", grid).settings == ({"ridge": 1.0, "step_size": 0.1}, {"ridge": 2.0, "step_size": 0.1})
    assert contender("ogd", {"sketch_size": [5]}).settings == ({},)


def test_threads_change_nothing():
    from onsketch.data import ill_conditioned

    X, y = ill_conditioned(600, 20, 50.0)
    field = [contender(name, {"ridge": [0.1, 1.0], "step_size": [0.1, 1.0]}) for name in ("fd-son", "adagrad")]

    def losses(threads):
        blocks = [(X[k : k + 100], y[k : k + 100], None) for k in range(0, 600, 100)]
        entered = Race([Track("a", blocks)], field, {"sketch_size": 5}, threads=threads)
        *_, (_, standings) = entered.run()
        return {s.name: (s.loss, s.scores[0].setting) for s in standings}

    assert losses(1) == losses(4)


def test_embedded_streams_come_easiest_first_with_the_same_labels():
    easy, hard = embedded(rows=50, dimension=4, conditions=[200, 10, 200], seed=1)
    assert (easy.name, hard.name) == ("10", "200")
    for (X, y, _), (other_X, other_y, _) in zip(easy.blocks, hard.blocks, strict=True):
        assert np.array_equal(y, other_y)
        assert not np.array_equal(X, other_X)


def test_the_usual_field_has_both_kinds():
    assert {entry.sketched for entry in CONTENDERS.values()} == {True, False}
    assert all(name == entry.name for field in (CONTENDERS, PUBLISHED) for name, entry in field.items())


def test_a_clipped_contender_has_the_same_settings_and_a_name_of_its_own():
    (one, two) = final(race(entry := Contender("ogd", ({"every": 2},)), clipped(entry, 1.0)))
    assert [one.name, two.name] == ["ogd", "ogd, clip 1"]
    assert two.scores[0].setting == {"every": 2, "clip": 1.0}


@pytest.mark.parametrize(("kinds", "conditions"), itertools.product(["s", "p", "sp"], [("5",), ("5", "50")]))
def test_the_verdict_names_the_best_of_each_kind_and_every_end(kinds, conditions):
    def standing(kind, error):
        return Standing(f"{kind}{error}", kind == "s", 1, tuple(Score(k, error, error, {}, 1.0) for k in conditions))

    said = verdict([standing(kind, error) for error in (0.1, 0.2) for kind in kinds])
    assert all(f"{kind}0.1" in said and f"{kind}0.2" not in said for kind in kinds)
    assert all(f" {k}" in said for k in conditions)
    assert "10.0%" in said


def test_the_verdict_names_who_is_most_accurate_and_who_is_least_affected():
    def standing(name, sketched, *errors):
        return Standing(name, sketched, 1, tuple(Score(k, e, e, {}, 1.0) for k, e in zip("ab", errors, strict=True)))

    field = [standing("s", True, 0.02, 0.06), standing("t", True, 0.07, 0.08), standing("u", True, 0.9, 0.9)]
    said = verdict([*field, standing("p", False, 0.05, 0.2)])
    assert "s errs least at condition number b (6.0%)" in said
    assert "p least without a sketch (20.0%)" in said
    assert "the error of t changes least (from 7.0% to 8.0%), and that of p goes from 5.0% to 20.0%" in said
