"""Model files: a learner or a sketch on disk, with everything needed to continue bit for bit, without pickle.

A model file is a safetensors file. Its arrays are the state; its metadata hold one JSON header under the key
``onsketch``:

    {"format": 8, "version": "0.1.0", "kind": "learner", "sha256": "…", …what the kind needs to be built…,
     "notes": {…other data of the writer…}}

The checksum covers the header and all arrays. A reader refuses every other content: another program's file, a
truncated or altered one, another format than its own. A file is written under a temporary name in the same folder,
flushed to the disk and renamed, so that a crash leaves the old file or the new one and never half of either.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onsketch.core.arrays import Arrays
from onsketch.core.errors import ModelFileError
from onsketch.files.locks import lock_now, remove_leftovers

FORMAT = 8
"""The only format that is read and written. It increases with every change of the content of files."""

PathLike = str | os.PathLike[str]

_KINDS = {
    "learner": "onsketch.learners.build",
    "sketch": "onsketch.sketches.saving",
    "classes": "onsketch.learners.multiclass.saving",
    "scikit-learn": "onsketch.adapters.sklearn.saving",
    "river": "onsketch.adapters.river.saving",
}
"""Module of each kind of object, whose ``from_file(content)`` rebuilds it."""


MISFITS = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, MemoryError, RecursionError)
"""Errors that building an object from inconsistent numbers and names may raise."""


class Content(NamedTuple):
    """Content of a model file."""

    kind: str
    header: dict[str, Any]
    """Values from which the kind builds itself."""
    arrays: Arrays
    notes: dict[str, Any]


def load(path: PathLike) -> Any:
    """Return the learner, sketch or estimator saved in a file, ready to continue.

    A file that lists the columns that the learner was trained on, as those of the program, a cluster and the service
    do, is returned as :class:`onsketch.Model`, which takes data frames, Arrow tables and dictionaries.

    Raises:
        ModelFileError: the file is not a model file, is truncated or altered, or has another format than ``FORMAT``.

    >>> import numpy as np, onsketch, tempfile
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 3)), rng.choice([-1.0, 1.0], 200)
    >>> one = onsketch.learner("adagrad")
    >>> _ = one.learn(X[:100], y[:100])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one.save(folder + "/model")
    ...     two = onsketch.load(folder + "/model")
    >>> bool((one.learn(X[100:], y[100:]) == two.learn(X[100:], y[100:])).all())
    True
    """
    content = read(path)
    try:
        training = content.notes.get("training")
        if content.kind in ("learner", "classes") and isinstance(training, dict) and training.get("schema"):
            return _built(import_module("onsketch.jobs.model").from_content, content)
        return build(content)
    except ModelFileError as error:
        raise ModelFileError(error.reason, error.field, os.fspath(path)) from None


def build(content: Content) -> Any:
    """Return the object that a file's content describes."""
    if not isinstance(content.kind, str) or content.kind not in _KINDS:
        raise ModelFileError(f"it holds a {content.kind!r}, which this version does not know.", "kind")
    return _built(import_module(_KINDS[content.kind]).from_file, content)


def _built(make: Callable[[Content], Any], content: Content) -> Any:
    try:
        return make(content)
    except ModelFileError:
        raise
    except MISFITS as error:  # what no check has a word for
        raise ModelFileError(f"its content does not fit together ({type(error).__name__}: {error}).") from error


@contextmanager
def describing(thing: str) -> Iterator[None]:
    """Turn errors of an object that a header does not describe into ModelFileErrors."""
    try:
        yield
    except ModelFileError:
        raise
    except MISFITS as error:
        raise ModelFileError(f"its header does not describe {thing} of this version ({error}).") from None


def write(
    path: PathLike,
    kind: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write a model file in one atomic step; on failure the previous file stays as it was."""
    import onsketch

    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in contiguous.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():  # no reader would take it
            raise ModelFileError(f"it cannot be saved: its {name} is not finite.", name, os.fspath(path))
    whole = {**header, "format": FORMAT, "version": onsketch.__version__, "kind": kind, "notes": dict(notes or {})}
    whole["sha256"] = _checksum(whole, contiguous)
    text = json.dumps(whole, sort_keys=True)
    write_atomically(path, lambda temporary: _write_tensors(temporary, contiguous, {"onsketch": text}))


def _write_tensors(path: str, arrays: Mapping[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    """Write a safetensors file into the locked file that is there; ``save_file`` would put another in its place."""
    from safetensors.numpy import save

    with open(path, "r+b") as file:
        file.write(save(dict(arrays), metadata))


def read(path: PathLike) -> Content:
    """Return the content of a model file after all checks that need only the file."""
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise ModelFileError("there is no such file." if not os.path.exists(name) else "not a file.", None, name)
    from safetensors import SafetensorError

    try:
        text, arrays = _read_tensors(name)
    except (OSError, SafetensorError, *MISFITS) as error:
        why = _as_text(name) or f"not a whole model file; other data, or cut short? ({error})."
        raise ModelFileError(why, None, name) from None
    if text is None:
        raise ModelFileError("a safetensors file, but not one of onsketch's.", None, name)
    return _checked(name, text, arrays)


def _read_tensors(name: str) -> tuple[str | None, Arrays]:
    """Read a safetensors file: our header, None if it has none, and the arrays.

    The file is read and not mapped into memory, because a mapped file that another process shortens ends this one.
    """
    from safetensors.numpy import load

    content = Path(name).read_bytes()
    arrays = load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return header.get("__metadata__", {}).get("onsketch"), arrays


def _as_text(name: str) -> str:
    """Return a hint if a file is plain text or compressed, else an empty string."""
    with open(name, "rb") as file:
        start = file.read(60)
    if start.startswith((b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd")):
        return "a compressed file, not a model; a model is what 'onsketch train --save' or save() wrote."
    try:
        text = start.decode("ascii").splitlines()[0] if start else ""
    except UnicodeDecodeError:
        return ""
    if not text.isprintable() or not text:
        return ""
    return f"text, not a model (it begins {text[:40]!r}); a model is what 'onsketch train --save' or save() wrote."


def _checked(name: str, text: str, arrays: Arrays) -> Content:
    try:
        header = json.loads(text)
        found, version = header["format"], header["version"]
        whole = {"kind", "notes", "sha256"} <= header.keys()
    except MISFITS:
        raise ModelFileError("its header cannot be read.", None, name) from None
    if found != FORMAT:
        raise ModelFileError(
            f"onsketch {version} wrote it in format {found}, and this version reads format {FORMAT} only. "
            "Use the version that wrote it, or train the model again.",
            "format",
            name,
        )
    if not whole or header.pop("sha256") != _checksum(header, arrays):
        raise ModelFileError("altered since it was written: its checksum does not fit its content.", "sha256", name)
    notes = header.pop("notes")
    if not isinstance(notes, dict):
        raise ModelFileError("its notes are no notes.", "notes", name)
    return Content(header.pop("kind"), header, arrays, notes)


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    import hashlib  # with all of OpenSSL, which those who only learn need not wait for

    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def write_atomically(path: PathLike, write_to: Any) -> None:
    """Let ``write_to(name)`` write a temporary file in the same folder; flush it to disk and rename it to ``path``."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)}: not a plain file, so it cannot be replaced by one.")
    remove_leftovers(target)
    handle, temporary, mode = _temporary_for(target)
    try:
        write_to(temporary)
        _flush(temporary)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    if os.name == "posix":
        _flush(str(target.parent))


def _temporary_for(target: Path) -> tuple[int, str, int]:
    """Make an empty, locked file that only this user can read; return its descriptor, name and the mode it gets later.

    The lock says that it is no leftover of a killed process.

    The mode is that of any new file. It is what the system made of 0666, because asking for the umask changes it for a
    moment, also for other threads.
    """
    while True:
        temporary = f"{target.parent}/.{target.name}.{os.urandom(4).hex()}"
        with suppress(FileExistsError):
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
            mode = stat.S_IMODE(os.fstat(handle).st_mode)
            with suppress(FileNotFoundError):  # removed as a leftover before it was locked
                if lock_now(handle) and os.path.samestat(os.fstat(handle), os.stat(temporary)):
                    os.chmod(temporary, 0o600)
                    return handle, temporary, mode
            os.close(handle)


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY if os.path.isdir(path) else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
