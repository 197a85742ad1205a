"""Figures and tables of the papers, one module for each paper: their claims, and the results here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from onsketch.core.errors import OptionError

if TYPE_CHECKING:
    from onsketch.experiments.design import Experiment

PAPERS = ("luo2016", "wan2018", "wan2021", "luo2019", "calandriello2017")
"""Modules, in the order of their papers in the argument."""


def every() -> dict[str, Experiment]:
    """Return all experiments by name."""
    modules = (import_module(f"onsketch.experiments.{paper}") for paper in PAPERS)
    return {experiment.name: experiment for module in modules for experiment in module.EXPERIMENTS}


def chosen(names: list[str]) -> list[Experiment]:
    """Return the experiments of these names; a paper's name stands for all of its own, ``all`` for all experiments.

    >>> [experiment.name for experiment in chosen(["luo2016-fig2"])]
    ['luo2016-fig2']
    """
    known = every()
    picked: dict[str, Experiment] = {}
    for name in names:
        found = {key: value for key, value in known.items() if name in ("all", key, value.paper.name)}
        if not found:
            raise OptionError(f"there is no experiment {name!r}; 'onsketch reproduce list' shows them.")
        picked |= found
    return list(picked.values())
