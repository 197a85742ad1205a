"""The named methods: each is a sketch × a geometry × an update rule, declared once with its citation.

``onsketch.compose`` builds combinations that have no name from the same parts. The tables of parts are
``sketch_table.py``, ``core/geometry.py`` and ``rule_table.py``; ``build.py`` makes a learner of a method.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from onsketch.core.errors import OptionError
from onsketch.core.geometry import Geometry, geometry_of
from onsketch.learners.options import concerning
from onsketch.learners.rule_table import UpdateRule, rule_of
from onsketch.learners.sketch_table import SketchKind, composable, sketch_of


@dataclass(frozen=True)
class Method:
    """A method: the names of its parts, its citation and its defaults."""

    name: str
    sketch: str
    geometry: str
    line: str
    """Description in one line."""
    citation: str
    rule: str = "step"
    """"step" (mirror descent or dual averaging), or another rule: see the table of update rules."""
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.line} ({self.citation})"

    def __deepcopy__(self, memo: dict[int, object]) -> Method:
        return self  # it never changes

    @property
    def parts(self) -> str:
        """Sketch × geometry × update, in words."""
        return f"{self.sketch} × {self.geometry} × {'mirror or dual' if self.steps else self.rule}"

    @property
    def metric(self) -> Geometry | None:
        """Entry of its geometry; None for a mixture of several."""
        return None if self.mixture else geometry_of(self.geometry)

    @property
    def kind(self) -> SketchKind:
        """Entry of its sketch."""
        return sketch_of(self.sketch)

    @property
    def moves(self) -> UpdateRule:
        """Entry of its update rule."""
        return rule_of(self.rule)

    @property
    def steps(self) -> bool:
        """True for methods that step in the sketch's metric (mirror descent or dual averaging)."""
        return self.moves.family == "step"

    @property
    def mixture(self) -> bool:
        """True for methods that mix several learners."""
        return self.moves.family == "mixture"

    @property
    def kernel(self) -> bool:
        """True for methods in the feature space of a kernel."""
        return self.moves.family == "kernel"

    @property
    def newton(self) -> bool:
        """True for Newton steps whose curvature is set by options."""
        return self.metric is not None and self.metric.newton and (self.steps or self.kernel)

    @property
    def sketched(self) -> bool:
        """True if it keeps directions, and not only a few numbers for each feature."""
        return self.kind.form != "features"

    @property
    def square(self) -> bool:
        """True if its summary needs d×d memory, or random maps of d coordinates."""
        return self.kind.form == "square"

    @property
    def composite(self) -> bool:
        """True if its steps support l1, l2 and box."""
        return self.steps and not self.newton

    @property
    def concerns(self) -> frozenset[str]:
        """The options that this method has, as they are declared."""
        return concerning(self)


FIRST_RIDGE = 1.0
"""First ridge of a Newton method whose ridge is not given."""


def ridge_share(method: Method, sketch_size: int) -> float:
    """Return the share c of ``ridge ≥ c·mean|x|²`` for packed Newton steps whose ridge was not given.

    In directions that a sketch has lost or never found, only the ridge bounds the steps. Robust frequent directions
    add lost energy to the ridge, so theirs may start at the smallest number that rounding allows. The more energy the
    other sketches miss, the larger a ridge they need; without a sketch the ridge is the whole metric.
    """
    return method.kind.ridge_share if sketch_size else 1.0


def _method(
    name: str, sketch: str, geometry: str, line: str, citation: str, rule: str = "step", **defaults: Any
) -> Method:
    general: dict[str, Any] = {"step_size": 0.1, "ridge": 0.1, "clip": None}
    metric, kind = geometry_of(geometry), sketch_of(sketch)
    if metric.newton and rule_of(rule).family in ("step", "kernel"):
        general = {"step_size": 1.0, "ridge": FIRST_RIDGE, "clip": 1.0}
    if not metric.spectral or (metric.newton and kind.packed):  # the latter grow a ridge
        del general["ridge"]
    if metric.spectral and not metric.newton and kind.shrinks:
        general["doubling"] = False
    return Method(name, sketch, geometry, line, citation, rule, {**general, **defaults})


_LUO2016 = "Luo, Agarwal, Cesa-Bianchi and Langford 2016"
_LUO2019 = "Luo, Chen, Zhang, Li and Zhang 2019"
_WAN2018 = "Wan and Zhang 2018"
_WAN2021 = "Wan and Zhang 2021"
_KRUMMENACHER = "Krummenacher, McWilliams, Kilcher, Buhmann and Meinshausen 2016"
_DUCHI = "Duchi, Hazan and Singer 2011"
_CALANDRIELLO = "Calandriello, Lazaric and Valko 2017"

METHODS: Mapping[str, Method] = MappingProxyType({
    m.name: m
    for m in (
        Method("auto", "rfd", "mixture", "needs no tuning, in any units: exact or sketched Newton, AdaGrad, mixed",
               "combined here", rule="mixture", defaults={"clip": "labels", "fit_intercept": True}),
        _method("ogd", "none", "gradient", "online gradient descent, step η/√t", "Zinkevich 2003"),
        _method("adagrad", "diagonal", "adagrad", "diagonal AdaGrad", _DUCHI, ridge=1e-6),
        _method("adam", "diagonal", "gradient", "Adam as published: every coordinate moves in every round",
                "Kingma and Ba 2015", rule="adam", step_size=0.01, ridge=1e-8),
        _method("lazy-adam", "diagonal", "gradient", "Adam that moves only the features of the row",
                "Kingma and Ba 2015, lazily", rule="lazy-adam", step_size=0.01, ridge=1e-8),
        _method("ftrl", "diagonal", "gradient", "FTRL-proximal with L1 and L2", "McMahan et al. 2013",
                rule="ftrl", ridge=1.0),
        _method("arow", "diagonal", "newton", "adaptive regularisation of weights, diagonal",
                "Crammer, Kulesza and Dredze 2009", rule="arow", step_size=1.0, ridge=1.0),
        _method("ada-full", "exact", "adagrad", "full-matrix AdaGrad, O(d³) a round", _DUCHI),
        _method("ons", "exact", "newton", "online Newton step with the full matrix, O(d²) a round",
                "Hazan, Agarwal and Kale 2007"),
        _method("rp-son", "rp", "newton", "sketched online Newton by Gaussian random projection", _LUO2016),
        _method("fd-son", "fd", "newton", "sketched online Newton by frequent directions", _LUO2016),
        _method("rfd-son", "rfd", "newton", "sketched online Newton by robust frequent directions", _LUO2019),
        _method("pfd-son", "pfd", "newton", "sketched online Newton by parameterised frequent directions",
                "Desai, Ghashami and Phillips 2016, in " + _LUO2019),
        _method("cfd-son", "cfd", "newton", "sketched online Newton by compensative frequent directions",
                "Desai, Ghashami and Phillips 2016, combined here"),
        _method("oja-son", "oja", "newton", "sketched online Newton by Oja's algorithm", _LUO2016),
        _method("ada-lr", "low-rank", "adagrad", "AdaGrad by a randomised low-rank factorisation, O(d²)",
                _KRUMMENACHER),
        _method("radagrad", "rada", "adagrad", "AdaGrad by an incremental randomised factorisation", _KRUMMENACHER),
        _method("ada-gp", "rp", "adagrad", "AdaGrad by random projection of gradients", _WAN2018),
        _method("ada-dp", "rp", "adagrad", "AdaGrad by random projection of data", _WAN2018, summary="data"),
        _method("ada-fd", "fd", "adagrad", "AdaGrad by frequent directions", _WAN2021),
        _method("ada-ffd", "ffd", "adagrad", "AdaGrad by fast frequent directions that count rank", _WAN2021),
        _method("s-adagrad", "fd", "s-adagrad", "AdaGrad by frequent directions, escaped mass inside the root",
                "Feinberg, Chen, Sun, Anil and Hazan 2023"),
        _method("kons", "every row", "newton", "kernel online Newton step with every row, O(t²) a round",
                _CALANDRIELLO, rule="kons"),
        _method("sketched-kons", "row dictionary", "newton", "kernel online Newton step with sampled rows",
                _CALANDRIELLO, rule="sketched-kons"),
        _method("pros-n-kons", "row dictionary", "newton", "online Newton step in the span of a kernel dictionary",
                _CALANDRIELLO + ", NIPS", rule="pros-n-kons"),
        _method("kernel-ogd", "none", "gradient", "functional gradient descent with every row, step η/√t",
                "Kivinen, Smola and Williamson 2004", rule="kernel-ogd", step_size=1.0),
        _method("budget-kernel-ogd", "none", "gradient", "functional gradient descent with a budget of rows",
                "Wang, Crammer and Vucetic 2012", rule="budget-kernel-ogd", step_size=1.0, max_points=500),
    )
})  # fmt: skip


def compose_method(sketch: str, geometry: str) -> Method:
    """Return the method composed of these parts; it has no citation."""
    if sketch not in composable():
        raise OptionError(f"sketch={sketch!r}: expected one of {', '.join(composable())}.")
    refusal = sketch_of(sketch).refusal(geometry)
    if refusal:
        raise OptionError(refusal)
    return _method(f"{sketch} × {geometry}", sketch, geometry, "composed", "no name of its own")
