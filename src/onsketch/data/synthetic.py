"""Synthetic streams: those of the papers, and those of our benchmarks.

Each function is a pure function of its parameters and its seed and returns ``(X, y)``, X dense or CSR.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

A9A_GROUPS = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)
"""Number of categories of a9a's 14 attributes; together 123."""


def _generators(seed: int, count: int) -> list[np.random.Generator]:
    """Return independent generators, so that one part of a stream can change without affecting the others."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]


def _orthonormal(rng: np.random.Generator, d: int) -> Floats:
    """Return a d-by-d orthonormal matrix, uniform over rotations and reflections (Mezzadri 2007)."""
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return np.asarray(q * np.sign(np.diag(r)), dtype=np.float64)


def ill_conditioned(
    n: int = 10_000, d: int = 100, condition: float = 100.0, top: int = 10, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return ill-conditioned Gaussian rows with linearly separable labels (Luo et al. 2016, section 5.1).

    ``X = Z diag(λ)^{1/2} Vᵀ`` with Z Gaussian and V orthonormal; the first ``d - top`` entries of λ are 1,
    the others rise linearly to κ: ``λ_{d-top+i} = 1 + (κ - 1) i/top``. Labels are -1 and +1.

    The paper keeps Z, V *and the labels* while κ changes, and yet writes ``y = sign(θ·x)``: one fixed θ
    would label ``x = V diag(λ)^{1/2} z`` differently at each κ. So the labels are made once, at the
    reference κ = 1, as ``y = sign(θ·Vz)``; every other κ has them by ``θ_κ = V diag(λ)^{-1/2} Vᵀ θ``.
    The rows at any two κ are then linear images of each other with the same labels, all of them
    separable, and a learner that is invariant to linear maps behaves alike on all. Other learners
    must find a θ_κ that is small where the rows are large.

    >>> X, y = ill_conditioned(n=1000, d=20, condition=200, top=5)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 20), [-1.0, 1.0])
    >>> bool((y == ill_conditioned(n=1000, d=20, condition=10, top=5)[1]).all())
    True
    """
    rows, basis, hidden = _generators(seed, 3)
    z = rows.standard_normal((n, d))
    v = _orthonormal(basis, d)
    theta = hidden.standard_normal(d)
    spectrum = np.ones(d)
    spectrum[d - top :] += (condition - 1.0) * np.arange(1, top + 1) / max(top, 1)
    return z * np.sqrt(spectrum) @ v.T, np.where(z @ (v.T @ theta) >= 0.0, 1.0, -1.0)


def low_rank_regression(
    n: int = 10_000, d: int = 500, decay: float = 2.0, scale: float = 100.0, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return rows of rapidly decaying covariance with a noiseless linear target (Wan et al. 2018, section 4.1).

    ``x ~ N(1, Σ)`` with ``λ_j(Σ) = scale · j^{-decay}`` and ``y = β·x``, ``|β| = 1``. The paper does not name
    the eigenvectors of Σ: here they are a random orthonormal basis.

    >>> X, y = low_rank_regression(n=2000, d=50)
    >>> [round(v, -1) for v in np.linalg.eigvalsh(np.cov(X.T))[:-3:-1].tolist()]
    [100.0, 20.0]
    """
    rows, basis, hidden = _generators(seed, 3)
    spectrum = scale * np.arange(1, d + 1, dtype=np.float64) ** -decay
    x = 1.0 + (rows.standard_normal((n, d)) * np.sqrt(spectrum)) @ _orthonormal(basis, d).T
    beta = hidden.standard_normal(d)
    return x, x @ (beta / np.linalg.norm(beta))


def text_like(
    n: int = 100_000,
    d: int = 100_000,
    nonzeros: float = 92,
    seed: int = 0,
    index_space: int | None = None,
    noise: float = 0.05,
) -> tuple[csr_array, Floats]:
    """Return sparse rows like tf-idf vectors of documents, with labels -1 and +1 from a hidden linear rule.

    A document is a fixed number of words drawn from the Zipf-like law
    ``p_j = log(1 + 1/j) / log(1 + d)``, j = 1..d (``⌊(1+d)^U⌋`` has exactly this law), that number being such
    that a row has ``nonzeros`` distinct words on average. The value of a word that occurs k times is
    ``(1 + log k)(1 - log q_j)``, q_j the fraction of documents that hold it, and rows have unit length.
    Labels are the sign of a weight vector with Gaussian entries for the 2,000 most frequent words and zero
    for the others; a fraction ``noise`` of them is flipped.

    The d words are scattered over the columns by a pseudo-random permutation; with ``index_space`` they are
    scattered, injectively, over that many columns instead (up to 2^62; indices are then 64-bit). Everything
    else stays the same: the order of the entries within a row, their values and the labels, so that indices
    within a row come unsorted. The first rows do not depend on n.

    >>> X, y = text_like(n=1000, d=5000, nonzeros=30)
    >>> X.shape, round(X.nnz / 1000), sorted(set(y.tolist()))
    ((1000, 5000), 30, [-1.0, 1.0])
    >>> wide, same = text_like(n=1000, d=5000, nonzeros=30, index_space=10**9)
    >>> wide.shape, bool((wide.data == X.data).all() and (same == y).all())
    ((1000, 1000000000), True)
    """
    words, hidden, flips = _generators(seed, 3)
    length, frequency = _document_law(d, nonzeros)
    rank, tf, indptr = _bags_of_words(words, n, d, length)
    values = (1.0 + np.log(tf)) * (1.0 - np.log(frequency))[rank]
    lengths = np.sqrt(np.add.reduceat(values * values, indptr[:-1])) if n else np.empty(0)
    values /= np.repeat(lengths, np.diff(indptr))
    theta = np.zeros(d)
    theta[:2000] = hidden.standard_normal(min(d, 2000))
    margins = np.add.reduceat(values * theta[rank], indptr[:-1]) if n else np.empty(0)
    y = np.where((margins >= 0.0) == (flips.random(n) >= noise), 1.0, -1.0)
    return _csr(values, rank, indptr, d, index_space, seed), y


def live_features(
    live: int = 1_000_000, n: int = 20_000, nonzeros: int = 92, seed: int = 0, noise: float = 0.05
) -> tuple[csr_array, Floats]:
    """Return a text-like stream in which every one of ``live`` features occurs.

    The first n rows are those of ``text_like(n, live, nonzeros, seed)``; the rows after them hold, once each
    and ``nonzeros`` to a row, the features that have not occurred yet. A learner that has seen this stream
    keeps state for ``live`` features, and ``text_like(d=live, nonzeros=nonzeros, seed=another)`` then
    exercises it at its steady state.

    >>> X, y = live_features(live=20_000, n=100)
    >>> X.shape[1], len(set(X.indices.tolist())), X.shape[0] == len(y)
    (20000, 20000, True)
    """
    from scipy.sparse import csr_array

    x, y = text_like(n, live, nonzeros, seed, noise=noise)
    unseen = np.ones(live, dtype=np.bool_)
    unseen[x.indices] = False
    rng = _generators(seed, 4)[3]
    rest = rng.permutation(np.flatnonzero(unseen)).astype(x.indices.dtype)
    indptr = np.append(np.arange(0, rest.size, nonzeros), rest.size)
    values = np.full(rest.size, 1.0 / math.sqrt(nonzeros))
    indptr = np.concatenate([x.indptr, x.indptr[-1] + indptr[1:]]).astype(x.indptr.dtype)
    indices = np.concatenate([x.indices, rest])
    labels = np.concatenate([y, rng.choice([-1.0, 1.0], size=indptr.size - 1 - n)])
    return csr_array((np.concatenate([x.data, values]), indices, indptr), shape=(labels.size, live)), labels


def a9a_like(n: int = 32_561, seed: int = 0) -> tuple[csr_array, Floats]:
    """Return rows shaped like LIBSVM's a9a: 14 categorical attributes as 123 binary features, about 24 % labels +1.

    Each row has three Gaussian factors h. Attribute g is ``Φ(s)``, ``s = a_g·h + e``, cut into its
    categories with probabilities falling like 1/k (the rarest of the 41 countries has 0.6 %), so that
    the attributes, and with them the features of different attributes, are correlated. The label is +1
    where ``b·h + e > 0.7``, with its own Gaussian e.

    >>> X, y = a9a_like(5000)
    >>> X.shape, X.nnz / 5000, round(float((y > 0).mean()), 1)
    ((5000, 123), 14.0, 0.2)
    """
    from scipy.sparse import csr_array
    from scipy.special import ndtr

    rows, noise, loadings = _generators(seed, 3)
    attributes = len(A9A_GROUPS)
    a = loadings.standard_normal((3, attributes + 1))
    a *= 0.8 / np.linalg.norm(a, axis=0)
    scores = rows.standard_normal((n, 3)) @ a + 0.6 * noise.standard_normal((n, attributes + 1))
    columns = np.empty((n, attributes), dtype=np.int32)
    offset = 0
    for g, size in enumerate(A9A_GROUPS):
        shares = 1.0 / np.arange(1, size + 1)
        cuts = np.cumsum(loadings.permutation(shares / shares.sum()))[:-1]
        columns[:, g] = offset + np.searchsorted(cuts, ndtr(scores[:, g]))
        offset += size
    indptr = np.arange(0, n * attributes + 1, attributes, dtype=np.int32)
    y = np.where(scores[:, -1] > 0.7, 1.0, -1.0)
    return csr_array((np.ones(columns.size), columns.ravel(), indptr), shape=(n, offset)), y


def _document_law(d: int, nonzeros: float) -> tuple[int, Floats]:
    """Return the number of words that gives ``nonzeros`` distinct ones on average, and the probability of each."""
    if not 1 <= nonzeros <= d / 2:
        raise ValueError(f"nonzeros must be between 1 and d/2, got {nonzeros} with d={d}")
    log_miss = np.log1p(-np.log1p(1.0 / np.arange(1, d + 1)) / math.log1p(d))
    low, high = 1, 2
    while -np.expm1(high * log_miss).sum() < nonzeros:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if -np.expm1(middle * log_miss).sum() < nonzeros else (low, middle)
    return high, -np.expm1(high * log_miss)


def _bags_of_words(rng: np.random.Generator, n: int, d: int, length: int) -> tuple[Ints, Floats, Ints]:
    """Return distinct words (by rank, from 0), their counts and the row pointer of n documents, block by block."""
    ranks, counts, sizes = [], [], [np.zeros(1, dtype=np.int64)]
    block = max(1, 2_000_000 // length)
    for start in range(0, n, block):
        u = rng.random((min(block, n - start), length))
        words = np.minimum(np.exp(u * math.log1p(d)).astype(np.int32) - 1, d - 1)
        words.sort(axis=1)
        first = np.ones(words.shape, dtype=np.bool_)
        first[:, 1:] = words[:, 1:] != words[:, :-1]
        positions = np.flatnonzero(first)
        ranks.append(words.ravel()[positions])
        counts.append(np.diff(positions, append=words.size).astype(np.float64))
        sizes.append(first.sum(axis=1))
    if not ranks:
        return np.empty(0, dtype=np.int64), np.empty(0), np.zeros(1, dtype=np.int64)
    return np.concatenate(ranks), np.concatenate(counts), np.cumsum(np.concatenate(sizes))


def _csr(values: Floats, rank: Ints, indptr: Ints, d: int, index_space: int | None, seed: int) -> csr_array:
    """Return the CSR matrix of these entries with the words scattered over the columns, indices left unsorted."""
    from scipy.sparse import csr_array

    columns = d if index_space is None else index_space
    if columns < d:
        raise ValueError(f"index_space must be at least d={d}, got {index_space}")
    small = index_space is None and max(d, values.size) < 2**31
    dtype = np.int32 if small else np.int64
    x = csr_array((indptr.size - 1, columns), dtype=np.float64)
    # Assigned one by one, since the constructor would narrow 64-bit indices wherever they fit in 32 bits.
    x.data, x.indptr = values, indptr.astype(dtype)
    x.indices = _scatter(np.arange(d), columns, seed).astype(dtype)[rank]
    return x


def _scatter(keys: Ints, size: int, seed: int) -> Ints:
    """Return a pseudo-random permutation of ``range(size)`` at the keys: a Feistel network with cycle walking.

    Four rounds of a multiplicative hash permute the 2h-bit numbers; a value outside the range is
    permuted again until it falls inside (Black and Rogaway 2002), which keeps the map injective.

    >>> sorted(_scatter(np.arange(10), 10, seed=3).tolist()) == list(range(10))
    True
    """
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    mask = (np.uint64(1) << half) - np.uint64(1)
    round_keys = np.random.default_rng(seed).integers(2**63, size=4, dtype=np.uint64)
    out = keys.astype(np.uint64)
    outside = np.arange(out.size)
    while outside.size:
        left, right = out[outside] >> half, out[outside] & mask
        for key in round_keys:
            hashed = (right ^ key) * np.uint64(0x9E3779B97F4A7C15)
            hashed = (hashed ^ (hashed >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
            left, right = right, left ^ ((hashed >> np.uint64(33)) & mask)
        out[outside] = (left << half) | right
        outside = outside[out[outside] >= size]
    return out.astype(np.int64)
