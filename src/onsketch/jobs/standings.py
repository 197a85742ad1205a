"""The standings of a race as the cells of a table, for terminals and pages."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onsketch.jobs.compare import Score, Standing, percent


def as_table(standings: Sequence[Standing]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of the standings."""
    tracks = [score.track for score in standings[0].scores]
    ends = [f", cond. {track}" for track in tracks] if len(tracks) > 1 else [""]
    signs = any(score.error is not None for standing in standings for score in standing.scores)
    figures = [f"{kind}{end}" for end in ends for kind in (("loss", "error") if signs else ("loss",))]
    return ["learner", *figures, "µs/example", "setting kept"], [
        [
            standing.name,
            *(cell for score in standing.scores for cell in _figures(score, signs)),
            f"{standing.microseconds:.1f}" if math.isfinite(standing.microseconds) else "-",
            _setting(standing),
        ]
        for standing in standings
    ]


def _figures(score: Score, signs: bool) -> list[str]:
    loss = f"{score.loss:.5g}" if math.isfinite(score.loss) else "diverged"
    return [loss, percent(score.error)] if signs else [loss]


def _setting(standing: Standing) -> str:
    """The best setting on each stream, and among how many it was chosen.

    >>> kept = [Score("10", 0.1, 0.1, {"ridge": 3e3}, 1.0), Score("200", 0.2, 0.1, {"ridge": 1e3}, 1.0)]
    >>> _setting(Standing("fd-son", True, 6, tuple(kept)))
    'ridge 3000 | ridge 1000, best of 6'
    """
    texts = [
        "none" if score.setting is None else ", ".join(f"{k} {v:g}" for k, v in score.setting.items())
        for score in standing.scores
    ]
    text = " | ".join(dict.fromkeys(texts)) or "defaults"
    return f"{text}, best of {standing.tried}" if standing.tried > 1 else f"{text}, not tuned"
