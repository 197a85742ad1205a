"""The small parts under the PyTorch optimizers: eigenvectors, random numbers, cosines."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from onsketch.torch import cosines, draws, nvrtc, spectrum
from torch_support import DEVICES


def _matrices(n, count=5, spread=6.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, n, n, generator=generator, dtype=torch.float64)
    rows *= torch.logspace(0.0, -spread / 2, max(1, n), dtype=torch.float64)
    return rows @ rows.mT


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [1, 2, 7, 20, 32, 33, 40, 80])
def test_eigh_is_descending_orthonormal_and_exact(n, device):
    matrices = _matrices(n).to(device)
    values, U = spectrum.eigh(matrices)
    assert (values.diff(dim=1) <= 0.0).all()
    size = matrices.abs().amax((1, 2), keepdim=True)
    torch.testing.assert_close(U.mT @ U, torch.eye(n, dtype=U.dtype, device=device).expand_as(U), rtol=0, atol=1e-12)
    torch.testing.assert_close((U * values[:, None]) @ U.mT / size, matrices / size, rtol=0, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_eigh_of_nothing_and_of_equal_values(device):
    for matrix in (torch.zeros(3, 4, 4), torch.eye(4).expand(3, 4, 4), torch.zeros(0, 4, 4)):
        values, U = spectrum.eigh(matrix.double().to(device))
        assert torch.isfinite(values).all()
        assert torch.isfinite(U).all()


def test_draws_are_those_of_the_linear_learners():
    pytest.importorskip("numba")
    from onsketch.core import draws as theirs
    from onsketch.learners.dense.fourier import fourier_sample

    for t in (1, 7, 256, 257, 5000):
        mine = draws.round_vector(3, t, 9, torch.device("cpu")).numpy()
        np.testing.assert_allclose(mine, theirs.round_vector(3, t, 9), rtol=1e-13, atol=1e-15)
    rows, signs = draws.fourier_sample(5, 4, 30, torch.device("cpu"))
    expected_rows, expected_signs = fourier_sample(5, 4, 30)
    np.testing.assert_array_equal(rows.numpy(), expected_rows)
    np.testing.assert_array_equal(signs.numpy(), expected_signs)


def test_without_a_home_no_compiled_kernel_is_kept(monkeypatch, tmp_path):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("ONSKETCH_CUDA_KERNELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(nvrtc.Path, "home", homeless)
    assert nvrtc.folder() is None
    assert nvrtc.kept_at("text", "name", (9, 0)) is None
    monkeypatch.setattr(nvrtc, "_compiled", lambda *_: b"binary")
    monkeypatch.setattr(nvrtc, "_loaded", lambda binary, _: binary)
    assert nvrtc.function("text", "name", (9, 0)) == b"binary"
    monkeypatch.setenv("ONSKETCH_CUDA_KERNELS", str(tmp_path))
    assert nvrtc.kept_at("text", "name", (9, 0)).parent == tmp_path


def test_a_compiled_kernel_that_cannot_be_written_leaves_no_file(tmp_path):
    path = tmp_path / "kernel.cubin"
    path.mkdir()  # a file cannot take its place
    nvrtc.keep(path, b"binary")
    assert list(tmp_path.iterdir()) == [path]
    nvrtc.keep(tmp_path / "other.cubin", b"binary")
    assert (tmp_path / "other.cubin").read_bytes() == b"binary"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 31, 64, 1000])
def test_radagrads_map_is_rows_of_the_orthonormal_cosine_transform(d, device):
    k, j = np.arange(d)[:, None], np.arange(d)[None, :]
    matrix = np.sqrt(2 / d) * np.cos(np.pi * (2 * j + 1) * k / (2 * d))
    matrix[0] /= np.sqrt(2)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(d), atol=1e-11)
    for size in (1, 4, 40):
        chosen, signs = (part.numpy() for part in draws.fourier_sample(7, size, d, torch.device("cpu")))
        expected = np.zeros((size, d))
        expected[: len(chosen)] = np.sqrt(d / len(chosen)) * matrix[chosen] * signs
        found = cosines.project(torch.eye(d, dtype=torch.float64, device=device), size, 7).cpu().numpy()
        np.testing.assert_allclose(found, expected.T, atol=1e-11)
