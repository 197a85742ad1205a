"""The race behind ``onsketch compare``, with learners whose mistakes are known beforehand."""

import itertools
import math

import numpy as np
import pytest

from onsketch.compare import CONTENDERS, Contender, Race, Score, Standing, Stream, streams, verdict
from onsketch.errors import UpdateError


class Wrong:
    """Errs on one row in ``every``, and gives up at row ``until``."""

    def __init__(self, name, *, every, n_features, until=math.inf, sketch_size=None):
        self.every, self.until, self.sketch_size, self.row = every, until, sketch_size, 0

    def learn(self, X, y):
        rows = self.row + np.arange(len(y))
        self.row += len(y)
        if self.row > self.until:
            raise UpdateError("not finite", row=0)
        return np.where(rows % self.every == 0, -y, y)


def stream(rows=100, condition=1.0):
    y = np.where(np.arange(rows) % 3 == 0, 1.0, -1.0)
    return Stream(condition, np.ones((rows, 2)), y)


def race(*contenders, streams=None):
    return Race(streams or [stream()], contenders, sketch_size=7, make=Wrong)


def final(entered):
    *_, (rows, standings) = entered.run(chunk=30)
    assert rows == 100
    return standings


def test_the_best_setting_is_kept():
    (standing,) = final(race(Contender("a", ({"every": 2}, {"every": 10}, {"every": 5}))))
    assert standing.tried == 3
    assert standing.scores[0].setting == {"every": 10}
    assert standing.error == pytest.approx(0.1)
    assert standing.microseconds > 0


def test_standings_are_sorted_by_error():
    standings = final(race(Contender("a", ({"every": 2},)), Contender("b", ({"every": 50},))))
    assert [standing.name for standing in standings] == ["b", "a"]


def test_progress_is_reported_after_each_chunk():
    assert [rows for rows, _ in race(Contender("a", ({"every": 2},))).run(chunk=30)] == [30, 60, 90, 100]


def test_a_setting_that_stops_being_finite_drops_out():
    (standing,) = final(race(Contender("a", ({"every": 50, "until": 40}, {"every": 2}))))
    assert standing.scores[0].setting == {"every": 2}
    assert standing.error == pytest.approx(0.5)


def test_a_contender_without_a_finite_setting_comes_last():
    lost, fine = Contender("lost", ({"every": 50, "until": 40},)), Contender("fine", ({"every": 2},))
    *_, last = final(race(lost, fine))
    assert (last.name, last.error, last.scores[0].setting) == ("lost", math.inf, None)
    assert "diverged" in verdict([last])


def test_margins_of_zero_and_not_a_number_are_mistakes():
    class Silent:
        def learn(self, X, y):
            return np.where(np.arange(len(y)) % 2 == 0, 0.0, math.nan)

    entered = Race([stream()], [Contender("a")], make=lambda name, **options: Silent())
    assert final(entered)[0].error == 1.0


def test_only_sketched_contenders_are_given_a_sketch_size():
    seen = {}

    def make(name, **options):
        seen[name] = options.get("sketch_size")
        return Wrong(name, **options)

    both = [Contender("with", ({"every": 2},)), Contender("without", ({"every": 2},), sketched=False)]
    Race([stream()], both, sketch_size=7, make=make)
    assert seen == {"with": 7, "without": None}


def test_warming_up_does_not_count():
    entered = race(Contender("a", ({"every": 2},)), Contender("b", ({"every": 2},)))
    assert list(entered.warm_up()) == ["a", "b"]
    assert {standing.error for standing in final(entered)} == {0.5}


def test_streams_come_easiest_first_with_the_same_labels():
    easy, hard = streams(rows=50, dimension=4, conditions=[200, 10, 200], seed=1)
    assert (easy.condition, hard.condition) == (10, 200)
    assert np.array_equal(easy.y, hard.y)
    assert not np.array_equal(easy.X, hard.X)


def test_the_usual_field_has_both_kinds():
    assert {entry.sketched for entry in CONTENDERS.values()} == {True, False}
    assert all(name == entry.name for name, entry in CONTENDERS.items())


@pytest.mark.parametrize(("kinds", "conditions"), itertools.product(["s", "p", "sp"], [(5,), (5, 50)]))
def test_the_verdict_names_the_best_of_each_kind_and_every_end(kinds, conditions):
    def standing(kind, error):
        return Standing(f"{kind}{error}", kind == "s", 1, tuple(Score(k, error, {}, 1.0) for k in conditions))

    said = verdict([standing(kind, error) for error in (0.1, 0.2) for kind in kinds])
    assert all(f"{kind}0.1" in said and f"{kind}0.2" not in said for kind in kinds)
    assert all(f" {k}" in said for k in conditions)
    assert "10.0%" in said
