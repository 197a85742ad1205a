"""Leading directions of a stream of rows, centred or not; sparse blocks stay sparse.

Frequent directions over blocks: with B the m − 1 orthogonal rows kept so far and a block X of b rows,

    Z = [ B ;  X − 1μᵀ ;  c ],   c = √(n·b/(n+b))·(mean − μ),   μ the block's mean,

has ``ZᵀZ`` equal to the scatter of all rows about their common mean (Ross, Lim, Lin and Yang 2008; without centring
μ = 0 and there is no c). Only the Gram matrix ``ZZᵀ = U diag(λ) Uᵀ`` is decomposed, and it comes from ``XXᵀ``, ``XBᵀ``
and ``Xμ``, which are sparse products for a sparse X. Then, ρ being the m-th eigenvalue,

    B ← diag(√((λ − ρ)/λ)) Uᵀ Z      and    escaped ← escaped + ρ,

so that no direction has lost more than ``escaped``: the guarantee of frequent directions (Ghashami, Liberty, Phillips
and Woodruff 2016) for the centred rows.

The true energy of the rows along a direction is between the sketch's energy and that plus ``escaped``. It is
estimated online. With e_j the energy of the stream so far along row j of B, of length² b_j, the i-th eigenvector has

    e_i' = λ_i·( Σ_j U_ij²·e_j/b_j + Σ_r U_ir² )  +  (1 − λ_i Σ_j U_ij²/b_j)·(all energy − Σ_j e_j)/(d − rows of B),

r being the rows of the block: the known energy along B, the new energy, and an equal share of that outside B.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core import state
from onsketch.core.arrays import LONGEST_COUNT, Arrays, require, require_lengths, take
from onsketch.core.shrinking import shrunk
from onsketch.core.tolerances import LARGEST, LONGEST_ROW
from onsketch.sketches.rows import checked
from onsketch.sketches.spectral import without_noise

Floats = NDArray[np.float64]
_POSITIVE = (0.0, float(np.finfo(np.float64).max))


class Stacked(NamedTuple):
    """Z as blocks, never formed explicitly."""

    rows: Floats
    """B, and c if there is one."""
    block: Any
    mean: Floats

    def gram(self) -> Floats:
        """Return ZZᵀ."""
        along = np.asarray(self.block @ self.rows.T) - self.rows @ self.mean
        raw = self.block @ self.block.T
        shift = np.asarray(self.block @ self.mean)
        among = (raw.toarray() if hasattr(raw, "toarray") else raw) - shift[:, None] - shift[None, :]
        among = among + self.mean @ self.mean
        return np.block([[self.rows @ self.rows.T, along.T], [along, among]])

    def combined(self, mixing: Floats) -> Floats:
        """Return mixing·Z."""
        own, rest = mixing[:, : len(self.rows)], mixing[:, len(self.rows) :]
        combined: Floats = own @ self.rows + np.asarray((self.block.T @ rest.T).T)
        return combined - np.outer(rest.sum(axis=1), self.mean)


class LeadingDirections:
    """Frequent directions of a stream of dense or CSR rows, about their mean with ``centred``.

    The division into blocks does not matter: rows are buffered up to ``block_rows``. Memory: (m + 1)·d numbers
    and the buffered rows. Cost per row: O((m + b)·non-zeros) for the Gram matrix, and 1/b of
    O(m(m + b)d + (m + b)³).

    >>> rows = np.diag([3.0, 2.0, 1.0, 0.5])
    >>> stream = LeadingDirections(4, size=3, centred=False, block_rows=2)
    >>> stream.update(rows)
    >>> directions, energies = stream.leading(1)
    >>> np.round(directions, 6), np.round(energies, 6), stream.escaped  # the sketch has 8, the rows 9
    (array([[1., 0., 0., 0.]]), array([9.]), 1.0)
    """

    rows: Annotated[Floats, state.Array("kept n_features")]
    energies: Annotated[Floats, state.Array("kept", within=(0.0, LARGEST**2))]
    """Estimated energy of the rows so far along each of ``rows``."""
    mean: Annotated[Floats, state.Array("n_features")]
    count: Annotated[int, state.Array("", "i8", within=(0, LONGEST_COUNT))]
    """Rows in ``rows`` and ``mean``, without buffered ones."""
    block_rows: Annotated[int, state.Array("", "i8", within=(1, LONGEST_COUNT))]
    escaped: Annotated[float, state.Array("", within=_POSITIVE)]
    scatter: Annotated[float, state.Array("", within=_POSITIVE)]
    """Σ|x − mean|² (Σ|x|² without centring) of those rows, exactly."""

    def __init__(self, n_features: int, size: int, centred: bool, block_rows: int) -> None:
        self.size = size
        self.centred = centred
        self.block_rows = block_rows
        self.rows = np.zeros((0, n_features))
        self.energies = np.zeros(0)
        self.mean = np.zeros(n_features)
        self.count = 0
        self.escaped = self.scatter = 0.0
        self.waiting: list[Any] = []
        self._finished: tuple[Floats, Floats] | None = None

    @property
    def seen(self) -> int:
        """Number of rows so far."""
        return self.count + sum(int(block.shape[0]) for block in self.waiting)

    def update(self, X: Any) -> None:
        """Add these checked rows, an array or a CSR matrix."""
        X = checked(X, len(self.mean))
        self._finished = None
        start = 0
        while start < X.shape[0]:
            room = self.block_rows - (self.seen - self.count)
            piece = X[start : start + room]
            self.waiting.append(piece.copy() if piece.shape[0] < self.block_rows else piece)
            start += piece.shape[0]
            if self.seen - self.count == self.block_rows:
                stacked, count, mean, scatter = self._stack()
                values, vectors = _decomposed(stacked)
                left, _, rho = shrunk(values, self.size)
                kept = int(np.count_nonzero(left))
                energies = self._energies(values[:kept], vectors[:, :kept], rho)
                scale = np.sqrt(left[:kept] / values[:kept])
                self.rows, self.energies = stacked.combined((vectors[:, :kept] * scale).T), energies
                self.count, self.mean, self.scatter = count, mean, scatter
                self.escaped += rho
                self.waiting = []

    def arrays(self) -> Arrays:
        """Return what a model file stores. Buffered rows are one block, as when they are absorbed."""
        kept = state.pack(self, "")
        if self.waiting:
            block = _one(self.waiting)
            if hasattr(block, "tocsr"):
                kept |= {"waiting.indptr": block.indptr.astype(np.int64), "waiting.values": block.data}
                kept["waiting.indices"] = block.indices.astype(np.int64)
            else:
                kept["waiting"] = block
        return kept

    def restore(self, arrays: Arrays) -> None:
        """Fill new directions from a model file, or raise ModelFileError."""
        width = len(self.mean)
        state.unpack(self, arrays, "", free=("kept",))
        require_lengths(self.rows, LONGEST_ROW, "rows")
        require_lengths(self.mean[np.newaxis], LARGEST, "mean")
        require(len(self.rows) < self.size, "it has more rows than it may keep", "rows")
        self.waiting, self._finished = [], None
        if "waiting" in arrays:
            self.waiting = [take(arrays, "waiting", np.float64, (None, width))]
        elif "waiting.indptr" in arrays:
            from scipy.sparse import csr_array

            indptr, indices = (take(arrays, f"waiting.{name}", np.int64, (None,)) for name in ("indptr", "indices"))
            values = take(arrays, "waiting.values", np.float64, (len(indices),))
            whole = len(indptr) > 0 and indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all()
            require(bool(whole) and bool(((indices >= 0) & (indices < width)).all()), "its waiting rows are no matrix")
            self.waiting = [csr_array((values, indices, indptr), shape=(len(indptr) - 1, width))]
        require(self.seen - self.count < self.block_rows, "more rows wait than a block has")
        for block in self.waiting:
            checked(block, width)

    def leading(self, count: int) -> tuple[Floats, Floats]:
        """Return ``count`` orthonormal directions, zero rows beyond the rank, and their energies; changes nothing.

        An energy is an estimate of that of the rows along the direction (see above).
        """
        if self._finished is None or len(self._finished[1]) < count:
            stacked = self._stack()[0]
            values, vectors = _decomposed(stacked)
            values, vectors = values[:count], vectors[:, :count]
            scale = np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 0.0)
            directions = stacked.combined((vectors * scale).T)
            peak = directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)]
            directions *= np.where(peak < 0.0, -1.0, 1.0)[:, None]
            energies = self._energies(values, vectors)
            missing = count - len(energies)
            self._finished = np.pad(directions, ((0, missing), (0, 0))), np.pad(energies, (0, missing))
        directions, energies = self._finished
        return directions[:count], energies[:count]

    def _energies(self, values: Floats, vectors: Floats, rho: float = 0.0) -> Floats:
        """Return the estimated energies of the rows along eigenvectors of Z, clipped to their certain bounds."""
        held = len(self.rows)
        lengths = np.maximum(np.einsum("ij,ij->i", self.rows, self.rows), np.finfo(np.float64).tiny)
        old = vectors[:held] ** 2 * values
        with np.errstate(over="ignore"):
            shares = np.minimum(self.energies / lengths, LARGEST)
        along = shares @ old + (vectors[held:] ** 2).sum(axis=0) * values
        within = np.minimum((1.0 / lengths) @ old, 1.0)
        outside = max(self.scatter - self.energies.sum(), 0.0) / max(len(self.mean) - held, 1)
        found: Floats = np.clip(along + (1.0 - within) * outside, values, values + self.escaped + rho)
        return np.where(values > 0.0, found, 0.0)

    def about(self) -> tuple[Floats, float]:
        """Return the mean of all rows and their scatter about it, buffered rows included."""
        _, _, mean, scatter = self._stack()
        return mean, scatter

    def _stack(self) -> tuple[Stacked, int, Floats, float]:
        """Return the rows kept and buffered as one Z; and count, mean and scatter of them all."""
        if not self.waiting:
            return (
                Stacked(self.rows, np.zeros((0, len(self.mean))), self.mean * 0.0),
                self.count,
                self.mean,
                self.scatter,
            )
        block = _one(self.waiting)
        fresh, total = block.shape[0], self.count + block.shape[0]
        square = float((block.multiply(block) if hasattr(block, "tocsr") else block * block).sum())
        if not self.centred:
            return Stacked(self.rows, block, self.mean), total, self.mean, self.scatter + square
        mean = np.asarray(block.sum(axis=0), dtype=np.float64).reshape(-1) / fresh
        shift = mean - self.mean
        between = self.count * fresh / total
        rows = np.vstack([self.rows, np.sqrt(between) * shift]) if self.count else self.rows
        inside = max(square - fresh * float(mean @ mean), 0.0)
        scatter = self.scatter + inside + between * float(shift @ shift)
        return Stacked(rows, block, mean), total, self.mean + shift * (fresh / total), scatter


def _one(blocks: list[Any]) -> Any:
    """Return these blocks of rows as one."""
    if len(blocks) == 1:
        return blocks[0]
    if any(hasattr(block, "tocsr") for block in blocks):
        from scipy.sparse import vstack

        return vstack(blocks, format="csr")
    return np.vstack(blocks)


def _decomposed(stacked: Stacked) -> tuple[Floats, Floats]:
    """Return eigenvalues of ZZᵀ, the largest first, and the eigenvectors."""
    values, vectors = np.linalg.eigh(stacked.gram())
    return without_noise(values[::-1]), vectors[:, ::-1]
