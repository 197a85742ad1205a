"""Frequent directions and its relatives: each is the mechanism of `onsketch.sketches.shrinking` with one rule.

=====================================  ==========================  ========  ====================
class                                  rule                        capacity  output
=====================================  ==========================  ========  ====================
FrequentDirections                     every eigenvalue loses ρ    m         BᵀB
FastFrequentDirections                 every eigenvalue loses ρ    2m        BᵀB
RobustFrequentDirections               every eigenvalue loses ρ    m         BᵀB + (ridge + Σρ/2)·I
FastRobustFrequentDirections           every eigenvalue loses ρ    2m        BᵀB + (ridge + Σρ/2)·I
ParameterizedFrequentDirections        the last ⌊βm⌋ − 1 lose ρ    m or 2m   BᵀB
CompensativeFrequentDirections         every eigenvalue loses ρ    m or 2m   BᵀB, Σρ added to what was kept
FrobeniusFrequentDirections            every eigenvalue loses ρ̄    m or 2m   BᵀB + (ridge + Σρ̄)·I, ρ̄ a mean
GreedyTruncation                       none loses                  m         BᵀB
=====================================  ==========================  ========  ====================

All of them keep every row exactly until the buffer is full for the first time.
"""

from __future__ import annotations

import sys
from typing import Annotated, Self

import numpy as np

from onsketch.core import state
from onsketch.core.shrinking import FD, GREEDY, PARAMETERIZED, ROBUST, ridge_growth
from onsketch.core.tolerances import LARGEST
from onsketch.sketches.base import real_number
from onsketch.sketches.rows import Array
from onsketch.sketches.shrinking import ShrinkingSketch


class FrequentDirections(ShrinkingSketch):
    r"""Frequent directions: ``λ_i ← λ_i − λ_m`` at every row from the m-th on.

    For every ``k < m``:  ``0 ⪯ AᵀA − BᵀB`` and ``‖AᵀA − BᵀB‖₂ ≤ ‖A − A_k‖_F² / (m − k)``,
    where ``A_k`` is the best approximation of rank k. It holds after `merge` as well.

    Cost per row: O(m²d); `FastFrequentDirections` has the same guarantee for O(md).

    Edo Liberty: "Simple and Deterministic Matrix Sketching", KDD 2013. Mina Ghashami, Edo Liberty, Jeff
    Phillips, David Woodruff: "Frequent Directions: Simple and Deterministic Matrix Sketching", SIAM J.
    Computing 45, 2016.

    >>> import numpy as np
    >>> from onsketch.sketch import FrequentDirections
    >>> sketch = FrequentDirections(3, 2).update(np.diag([3.0, 2.0, 1.0]))
    >>> sketch.spectrum, sketch.escaped  # 9 - 4 = 5 at the second row, 5 - 1 = 4 at the third
    (array([4., 0.]), 5.0)
    """

    def __init__(self, n_features: int, size: int) -> None:
        super().__init__(n_features, size, FD, doubling=False)


class FastFrequentDirections(ShrinkingSketch):
    r"""Frequent directions with a doubled buffer: at 2m rows ``λ_i ← λ_i − λ_m``, and m − 1 rows stay.

    The guarantee of `FrequentDirections`, usually with a smaller error, since fewer shrinks happen.

    Cost per row: O(md) on average, one shrink every m + 1 rows.

    Edo Liberty: "Simple and Deterministic Matrix Sketching", KDD 2013. Luo Luo, Cheng Chen, Zhihua Zhang,
    Wu-Jun Li, Tong Zhang: "Robust Frequent Directions with Application in Online Learning", JMLR 20, 2019,
    algorithm 4 (here the buffer starts without rows, as in algorithm 6).

    >>> import numpy as np
    >>> from onsketch.sketch import FastFrequentDirections
    >>> rows = np.diag([4.0, 3.0, 2.0, 1.0])
    >>> sketch = FastFrequentDirections(4, 2).update(rows[:3])
    >>> sketch.spectrum  # three rows fit
    array([16.,  9.,  4.])
    >>> sketch.update(rows[3]).spectrum  # the fourth does not: 16 - 9
    array([7.])
    """

    def __init__(self, n_features: int, size: int) -> None:
        super().__init__(n_features, size, FD, doubling=True)


class _Robust(ShrinkingSketch):
    """Frequent directions that restore half of the shrunk mass, equally in all directions."""

    def __init__(self, n_features: int, size: int, ridge: float, doubling: bool) -> None:
        super().__init__(n_features, size, ROBUST, doubling)
        self._first_ridge = real_number("ridge", ridge, above=0.0, at_most=sys.float_info.max, closed=True)

    @property
    def ridge(self) -> float:
        """Starting ridge plus half of every ρ."""
        return self._first_ridge + ridge_growth(ROBUST, self._escaped)

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "ridge": self._first_ridge}


class RobustFrequentDirections(_Robust):
    r"""Robust frequent directions: ``λ_i ← λ_i − λ_m`` and ``ridge ← ridge + λ_m/2`` at every row.

    For every ``k < m``, with ``ridge₀`` the ridge at the start (zero unless given):

        ``‖(AᵀA + ridge₀·I) − (BᵀB + ridge·I)‖₂ ≤ ‖A − A_k‖_F² / (2(m − k))``

    half the error of `FrequentDirections`, and a condition number never above that of
    ``BᵀB + ridge₀·I``. (It can be above that of the exact ``AᵀA + ridge₀·I``: the rows e₂, e₃, 10e₁ with
    m = 2 and a small ridge₀ give 201 against 100.)

    Cost per row: O(m²d).

    Luo Luo, Cheng Chen, Zhihua Zhang, Wu-Jun Li, Tong Zhang: "Robust Frequent Directions with Application in
    Online Learning", JMLR 20, 2019, algorithm 2.

    >>> import numpy as np
    >>> from onsketch.sketch import RobustFrequentDirections
    >>> sketch = RobustFrequentDirections(3, 2).update(np.diag([3.0, 2.0, 1.0]))
    >>> sketch.spectrum, sketch.ridge  # half of 4 + 1
    (array([4., 0.]), 2.5)
    """

    def __init__(self, n_features: int, size: int, ridge: float = 0.0) -> None:
        super().__init__(n_features, size, ridge, doubling=False)


class FastRobustFrequentDirections(_Robust):
    r"""Robust frequent directions with a doubled buffer: a shrink only at 2m rows.

    At a shrink ``λ_i ← λ_i − λ_m`` and ``ridge ← ridge + λ_m/2``. The guarantees of
    `RobustFrequentDirections`.

    Cost per row: O(md) on average, one shrink every m + 1 rows.

    Luo Luo, Cheng Chen, Zhihua Zhang, Wu-Jun Li, Tong Zhang: "Robust Frequent Directions with Application in
    Online Learning", JMLR 20, 2019, algorithm 5.

    >>> import numpy as np
    >>> from onsketch.sketch import FastRobustFrequentDirections
    >>> sketch = FastRobustFrequentDirections(4, 2).update(np.diag([4.0, 3.0, 2.0, 1.0]))
    >>> sketch.spectrum, sketch.ridge
    (array([7.]), 4.5)
    """

    def __init__(self, n_features: int, size: int, ridge: float = 0.0) -> None:
        super().__init__(n_features, size, ridge, doubling=True)


class ParameterizedFrequentDirections(ShrinkingSketch):
    r"""Parameterised frequent directions: only ``c = max(1, ⌊βm⌋)`` eigenvalues are affected by a shrink.

    The m-th is one of them (it becomes zero), so the last ``c − 1`` kept ones lose ``λ_m`` and the leading
    ``m − c`` are unchanged. ``β = 1`` is `FrequentDirections`, ``c = 1`` is `GreedyTruncation`.

    Often better than frequent directions in practice, worse in theory: for every ``k < c``, with c in the
    place of m, ``0 ⪯ AᵀA − BᵀB`` and ``‖AᵀA − BᵀB‖₂ ≤ ‖A − A_k‖_F² / (c − k)``.

    `merge` has no guarantee in the paper, and not that of frequent directions here: at best the
    bound above, which is loose for the usual small β. `escaped` still bounds the error.

    Cost per row: O(m²d), or O(md) with doubling.

    Amey Desai, Mina Ghashami, Jeff Phillips: "Improved Practical Matrix Sketching with Guarantees", IEEE
    TKDE 28, 2016.

    >>> import numpy as np
    >>> from onsketch.sketch import ParameterizedFrequentDirections
    >>> rows = np.diag([5.0, 4.0, 3.0, 2.0, 1.0])
    >>> ParameterizedFrequentDirections(5, 4, shrink_fraction=0.5).update(rows).spectrum
    array([25., 16.,  4.,  0.])
    """

    def __init__(self, n_features: int, size: int, shrink_fraction: float = 0.2, doubling: bool = False) -> None:
        beta = real_number("shrink_fraction", shrink_fraction, above=0.0, at_most=1.0, closed=False)
        super().__init__(n_features, size, PARAMETERIZED, doubling, beta)
        self.shrink_fraction = beta

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "shrink_fraction": self.shrink_fraction}


class CompensativeFrequentDirections(ShrinkingSketch):
    r"""Compensative frequent directions: the output adds ``Σρ`` to the kept eigenvalues.

    The state is that of plain (or fast) frequent directions. The output gives every kept row with eigenvalue
    ``λ_i > 0`` the eigenvalue ``λ_i + Σρ``. Rows still waiting in a doubled buffer are unchanged,
    and a kept eigenvalue of zero stays zero, since it has no direction.

    For every ``k < m``:  ``‖AᵀA − BᵀB‖₂ ≤ ‖A − A_k‖_F² / (m − k)``; the error may have either sign.

    Cost per row: O(m²d), or O(md) with doubling.

    Amey Desai, Mina Ghashami, Jeff Phillips: "Improved Practical Matrix Sketching with Guarantees", IEEE
    TKDE 28, 2016.

    >>> import numpy as np
    >>> from onsketch.sketch import CompensativeFrequentDirections
    >>> CompensativeFrequentDirections(3, 2).update(np.diag([3.0, 2.0, 1.0])).spectrum  # 4 + (4 + 1)
    array([9., 0.])
    """

    def __init__(self, n_features: int, size: int, doubling: bool = False) -> None:
        super().__init__(n_features, size, FD, doubling)

    def _shown(self) -> Array:
        held = super()._shown()
        kept = held[: self._kept]
        values = np.einsum("ij,ij->i", kept, kept)[:, np.newaxis]
        # Unit rows first: (λ + Σρ)/λ itself may overflow.
        np.divide(kept, np.sqrt(values), out=kept, where=values > 0.0)
        np.multiply(kept, np.sqrt(values + self._escaped), out=kept, where=values > 0.0)
        return held


class FrobeniusFrequentDirections(ShrinkingSketch):
    r"""Sketch with optimal shrinks in Frobenius norm: the mean of the dropped eigenvalues joins the ridge.

    A full buffer with eigenvalues ``λ₁ ≥ λ₂ ≥ …`` of ``BᵀB`` (d of them, with zeros) keeps m − 1 directions:

        ``ρ̄ = (λ_m + … + λ_d)/(d − m + 1)``, ``λ_i ← λ_i − ρ̄``, ``ridge ← ridge + ρ̄``.

    No other matrix ``C + δI`` with C of rank m − 1 is nearer, in Frobenius norm, to ``BᵀB + ridge·I`` before the
    shrink; `RobustFrequentDirections` has the same property for the spectral norm. The trace is kept. No bound over
    a whole stream is known beyond ``0 ⪯ AᵀA − BᵀB ⪯ Σλ_m·I``: if d is much larger than m, ρ̄ is small, and the
    sketch is close to `GreedyTruncation`.

    Cost per row: O(m²d), or O(md) on average if doubled.

    Luo Luo, Cheng Chen, Zhihua Zhang, Wu-Jun Li, Tong Zhang: "Robust Frequent Directions with Application in
    Online Learning", JMLR 20, 2019, corollary 1 (the paper runs no such sketch).

    >>> import numpy as np
    >>> from onsketch.sketch import FrobeniusFrequentDirections
    >>> sketch = FrobeniusFrequentDirections(3, 2).update(np.diag([3.0, 2.0, 1.0]))
    >>> sketch.spectrum, sketch.ridge  # 9 - 4/2 = 7, then 7 - 1/2
    (array([6.5, 0. ]), 2.5)
    """

    _given: Annotated[float, state.Array("", within=(0.0, LARGEST * LARGEST))]

    def __init__(self, n_features: int, size: int, ridge: float = 0.0, doubling: bool = False) -> None:
        super().__init__(n_features, size, FD, doubling)
        self._first_ridge = real_number("ridge", ridge, above=0.0, at_most=sys.float_info.max, closed=True)
        self._given = 0.0

    @property
    def ridge(self) -> float:
        """Starting ridge plus every ρ̄."""
        return self._first_ridge + self._given

    def _shrunk(self, values: Array) -> Array:
        mean = float(values[self.size - 1 :].sum()) / max(self.n_features - self.size + 1, 1)
        self._given += mean
        return np.maximum(values[: self.size - 1] - mean, 0.0)

    def _merge(self, other: Self) -> None:
        self._given += other._given
        super()._merge(other)

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "ridge": self._first_ridge}


class GreedyTruncation(ShrinkingSketch):
    r"""Greedy truncation: the best approximation of rank m − 1 at every row, eigenvalues untouched.

    It shows that shrinking is needed. ``0 ⪯ AᵀA − BᵀB ⪯ Σρ·I`` holds, but Σρ has no bound by
    the tail of A: a recurring direction that is slightly weaker than the kept ones is dropped every time.

    Cost per row: O(m²d).

    Luo Luo, Cheng Chen, Zhihua Zhang, Wu-Jun Li, Tong Zhang: "Robust Frequent Directions with Application in
    Online Learning", JMLR 20, 2019, appendix F.

    >>> from onsketch.sketch import FrequentDirections, GreedyTruncation
    >>> rows = [[1.0, 0.0]] + [[0.0, 0.9]] * 1000
    >>> GreedyTruncation(2, 2).update(rows).covariance().diagonal().round(2)
    array([1., 0.])
    >>> FrequentDirections(2, 2).update(rows).covariance().diagonal().round(2)
    array([  0., 809.])
    """

    def __init__(self, n_features: int, size: int) -> None:
        super().__init__(n_features, size, GREEDY, doubling=False)
