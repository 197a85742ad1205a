"""The table of sketches: one record has all properties that learners, jobs and documentation need.

A sketch is one entry here, or one that another package registers. Its record names the public class and, if there is
one, the packed form for sparse rows (``learners/sketched/state.State``); both implement merging. The other fields are
capabilities and defaults: no other code in the package depends on a sketch's name.

Without a packed form a sketch runs in dense learners, at the cost of its public class. Modules are named by their
paths, so that reading the table imports nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from onsketch.core import shrinking
from onsketch.core.errors import OptionError
from onsketch.core.geometry import geometry_of

if TYPE_CHECKING:
    from onsketch.learners.dense.summaries import Summary
    from onsketch.learners.options import Options
    from onsketch.learners.sketched.state import State
    from onsketch.sketches.base import Sketch

_AMORTISED = "O(ms), amortised"
_SPARSE = "O(s), s the non-zeros of the row"


@dataclass(frozen=True)
class SketchKind:
    """One sketch. The defaults suit a plain list of rows, such as the last rows of a stream.

    Args:
        name: as in ``compose(sketch=...)``.
        line: description in a few words.
        cost: cost of a row with s non-zeros.
        make: function that makes the public sketch from the width, the options and the initial ridge of a learner.
        public: class of the public sketch, if users can make it as ``public(n_features, size)``.
        packed: its form for sparse rows: a class of ``State``, or the path to one.
        summary: path to its form in dense learners, if that is not the public sketch.
        form: "rows" for some rows; "features" for at most one number per feature; "square" for d×d numbers, or random
            maps of d coordinates; "kernel" for rows used by a kernel.
        rule: its shrinking rule (``core/shrinking.py``), for the frequent-directions family.
        sized: True if it uses ``sketch_size``.
        sizes_itself: True if it supports ``sketch_size="auto"``.
        ridge_share: least ridge of Newton steps, as a share of the rows' mean squared length (``methods.ridge_share``).
        recommended_ridge: ridge of Newton steps for rows of length 1: see ``recommended.py``.
        singular: True if Newton steps can do without a ridge, by the pseudo-inverse.
        shows_escaped: True if its spectrum includes escaped energy, so that no geometry may add it.
        error_share: factor of Σρ that bounds its spectral error; None if unknown.
        theorem: theorem that bounds the regret of its Newton steps.
        whole_row: True if the metric of a step includes the row in full.
        independent: True if sketches to be merged must have different seeds.
        options: options that only this sketch has.
        slow: True if it converges slowly to the leading directions, and a large row can spoil them.
        geometries: supported geometries; empty for all.
        instead: methods of linear memory to suggest if d×d numbers are too many.
        no_composite: reason why it does not support l1, l2 or box, if so.
    """

    name: str
    line: str
    cost: str
    make: Callable[[int, Options, float], Sketch] | None = None
    public: type[Sketch] | None = None
    packed: type[State] | str | None = None
    summary: str = ""
    form: Literal["rows", "features", "square", "kernel"] = "rows"
    rule: int | None = None
    sized: bool = True
    sizes_itself: bool = False
    ridge_share: float = 0.03
    recommended_ridge: float = 0.03
    singular: bool = False
    shows_escaped: bool = False
    error_share: float | None = None
    theorem: str = ""
    whole_row: bool = False
    independent: bool = False
    options: tuple[str, ...] = ()
    slow: bool = False
    geometries: tuple[str, ...] = ()
    instead: str = ""
    no_composite: str = ""

    @property
    def shrinks(self) -> bool:
        """True for members of the frequent-directions family."""
        return self.rule is not None

    @property
    def robust(self) -> bool:
        """True if the energy it loses is added to the ridge."""
        return self.rule == shrinking.ROBUST

    def packed_form(self) -> type[State]:
        """Its class for sparse rows."""
        form: type[State] = _found(self.packed) if isinstance(self.packed, str) else self.packed  # type: ignore[assignment]
        return form

    def dense_form(self, width: int, options: Options) -> Summary:
        """Its empty summary in a dense learner for rows of this width."""
        if self.summary:
            made: Summary = _found(self.summary)(width, options)
            return made
        from onsketch.learners.dense.summaries import SketchedRows

        return SketchedRows(self.name, width, options)

    def refusal(self, geometry: str) -> str | None:
        """Return the reason why it does not go with this geometry, or None."""
        metric = geometry_of(geometry)
        if (self.name == "none") == metric.spectral:
            return 'sketch="none" and geometry="gradient" (plain gradient steps) go together.'
        if metric.counts_escaped and self.shows_escaped:
            return f"{geometry} counts the escaped mass itself; with sketch={self.name!r} it would count twice."
        if self.geometries and geometry not in self.geometries:
            return f"sketch={self.name!r} is defined with geometry={' or '.join(map(repr, self.geometries))} only."
        return None


def _found(path: str) -> Any:
    module, name = path.split(":")
    return getattr(import_module(f"onsketch.{module}"), name)


def _public(name: str, *arguments: Any) -> Any:
    """A public sketch by the name of its class."""
    return _found(f"sketches:{name}")(*arguments)


def _plain(rule: int) -> Callable[[int, Options, float], Any]:
    """Frequent directions by a rule, doubled or not."""
    return lambda width, o, ridge: _found("sketches.shrinking:ShrinkingSketch")(width, o.sketch_size, rule, o.doubling)


_DIRECTIONS = "learners.sketched.frequent_directions:Directions"

SKETCHES: dict[str, SketchKind] = {
    kind.name: kind
    for kind in (
        SketchKind(
            "none", "keeps nothing", _SPARSE, form="features", sized=False, ridge_share=0.0
        ),
        SketchKind(
            "diagonal", "keeps one or two numbers per feature", _SPARSE, form="features", sized=False, ridge_share=0.0,
            recommended_ridge=0.1,
        ),
        SketchKind(
            "fd", "frequent directions: m rows; when they are full, every eigenvalue loses the smallest",
            "O(ms) and, every m rows, a shrink; O(m²s) without doubling",
            make=_plain(shrinking.FD), packed=_DIRECTIONS, rule=shrinking.FD, sizes_itself=True,
            error_share=1.0, theorem="Luo et al. 2016, Theorem 3", whole_row=True,
        ),
        SketchKind(
            "rfd", "robust frequent directions: half of what a shrink takes joins the ridge", _AMORTISED,
            make=lambda width, o, ridge: _public(
                f"{'Fast' if o.doubling else ''}RobustFrequentDirections", width, o.sketch_size, ridge
            ),
            packed=_DIRECTIONS, rule=shrinking.ROBUST, sizes_itself=True, ridge_share=1e-7, singular=True,
            shows_escaped=True, error_share=shrinking.HALF, theorem="Luo et al. 2019, Theorem 5", whole_row=True,
        ),
        SketchKind(
            "pfd", "frequent directions in which only a fraction β of the eigenvalues shrinks", _AMORTISED,
            make=lambda width, o, ridge: _public(
                "ParameterizedFrequentDirections", width, o.sketch_size, o.shrink_fraction, o.doubling
            ),
            packed=_DIRECTIONS, rule=shrinking.PARAMETERIZED, error_share=1.0, theorem="Luo et al. 2016, Theorem 3",
            whole_row=True, options=("shrink_fraction",),
        ),
        SketchKind(
            "cfd", "frequent directions whose output gets back what was taken", _AMORTISED,
            make=lambda width, o, ridge: _public("CompensativeFrequentDirections", width, o.sketch_size, o.doubling),
            packed=_DIRECTIONS, rule=shrinking.COMPENSATIVE, shows_escaped=True, error_share=1.0, whole_row=True,
        ),
        SketchKind(
            "greedy", "the leading directions, without a shrink: a warning", _AMORTISED,
            make=_plain(shrinking.GREEDY), packed=_DIRECTIONS, rule=shrinking.GREEDY, whole_row=True,
        ),
        SketchKind(
            "ffd", "frequent directions that count rank instead of rows: exact where 2m exceeds d",
            "O(ms + m³), amortised", summary="learners.dense.summaries:RankCounting",
            packed="learners.sketched.rank_counting:RankedDirections", error_share=1.0, whole_row=True,
        ),
        SketchKind(
            "rp", "m Gaussian projections: S ← S + r gᵀ", "O(ms + m²)",
            make=lambda width, o, ridge: _public("RandomProjection", width, o.sketch_size, o.seed),
            packed="learners.sketched.random_projection:Projection", ridge_share=0.3, recommended_ridge=0.1,
            independent=True,
        ),
        SketchKind(
            "oja", "Oja's algorithm: m directions that turn towards each row", "O(ms + m²)",
            make=lambda width, o, ridge: _public("Oja", width, o.sketch_size, o.seed, o.oja_block, o.oja_step),
            packed="learners.sketched.oja:Subspace", ridge_share=0.5, recommended_ridge=1.0,
            slow=True,
            options=("oja_step", "oja_block"),
        ),
        SketchKind(
            "exact", "keeps the whole d×d matrix", "O(d²) for Newton, O(d³) for AdaGrad", form="square", sized=False,
            summary="learners.dense.summaries:Exact", ridge_share=0.0, recommended_ridge=1.0, singular=True,
            error_share=0.0,
            theorem="Luo et al. 2016, Theorem 2", instead="rfd-son (or ada-ffd, s-adagrad)",
        ),
        SketchKind(
            "low-rank", "a randomised factorisation of the d×d matrix", "O(d²)", form="square",
            summary="learners.dense.fourier:LowRank", ridge_share=0.0, geometries=("adagrad",), instead="radagrad",
            no_composite="need a finite metric, and no step of this method leaves its directions. "
            "Use radagrad, ada-fd or s-adagrad.",
        ),
        SketchKind(
            "rada", "an incremental randomised factorisation", "O(md + d log d)", form="square",
            summary="learners.dense.fourier:Rada", ridge_share=0.0, geometries=("adagrad",),
        ),
        SketchKind("every row", "every row, in a Cholesky factor", "O(t²)", form="kernel", ridge_share=0.0),
        SketchKind(
            "row dictionary", "rows sampled by their leverage", "O(J²) for J rows kept, and kernel values",
            form="kernel", ridge_share=0.0,
        ),
    )
}  # fmt: skip
"""Every sketch by its name."""


def composable() -> list[str]:
    """The sketches that ``compose`` takes."""
    return [name for name, kind in SKETCHES.items() if kind.form != "kernel"]


def sketch_of(name: str) -> SketchKind:
    """The sketch of this name, or an error that lists all."""
    if name not in SKETCHES:
        raise OptionError(f"sketch={name!r}: expected one of {', '.join(composable())}.")
    return SKETCHES[name]


def register(kind: SketchKind) -> SketchKind:
    """Add a sketch from outside to the table; a name is given once."""
    if kind.name in SKETCHES:
        raise OptionError(f"there is a sketch {kind.name!r} already; give yours another name.")
    if kind.make is None or kind.form != "rows" or kind.rule is not None:
        raise OptionError(
            f"sketch {kind.name!r}: give a name, a line, a cost and what makes the public sketch; its form is rows, "
            "and rules of shrinking are for the package's own."
        )
    SKETCHES[kind.name] = kind
    if kind.public is not None:
        from onsketch.sketches.named import NAMED, Named

        NAMED[kind.name] = Named(kind.public)
    return kind
