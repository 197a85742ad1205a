"""Many classes: a learner for each (or as ``multiclass`` says), names for their codes, and room for new ones."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onsketch.adapters.options import class_model, probabilities
from onsketch.core.errors import InputError, UpdateError
from onsketch.data.json_rows import shown
from onsketch.files import model_file
from onsketch.jobs.serve.batch import Batch, Floats, Rows, part_of
from onsketch.jobs.serve.model import Admitted, Learned, Model, class_name

MOST_CLASSES = 1000
"""Classes that a service makes room for; a label that is different in each row is no class."""


class ClassModel(Model):
    """A learner of many classes, of which new ones may come at any time."""

    kind = "classes"

    def __init__(self, learner: Any, loss: str, names: list[str], sums: dict[str, float], reading: dict[str, Any]):
        super().__init__()
        self.learner, self.loss, self.names, self.reading = learner, loss, names, reading
        self.codes = {name: code for code, name in enumerate(names)}
        self.sums = sums

    @property
    def rows(self) -> int:
        """Rows learned since the model began."""
        return int(self.sums["rows"])

    @property
    def tally(self) -> dict[str, Any]:
        """Rows, mean loss (of the probability given to the true class) and error so far."""
        weight = self.sums["weight"] or 1.0
        found = {"rows": self.rows, "loss": self.sums["loss"] / weight, "error": self.sums["mistakes"] / weight}
        return {**found, "classes": self.names}

    def admit(self, labels: Sequence[Any] | Floats) -> Admitted:
        """Codes of classes; new ones get the next codes, in order."""
        codes, refused = np.full(len(labels), np.nan), {}
        fresh: dict[str, int] = {}
        for row, label in enumerate(labels.tolist() if isinstance(labels, np.ndarray) else labels):
            if not isinstance(label, (str, bool, int, float)) or label != label or label == "":
                refused[row] = f"label: expected a word or a number, found {shown(label)}."
                continue
            try:
                name = class_name(label)
            except OverflowError:
                refused[row] = "label: the number is too large."
                continue
            code = self.codes.get(name, fresh.get(name))
            if code is None:
                code = len(self.names) + len(fresh)
                if code >= MOST_CLASSES or len(name) > 200:
                    refused[row] = f"label: {shown(name)} would be class {code + 1:,}; {MOST_CLASSES:,} is the limit."
                    continue
                fresh[name] = code
            codes[row] = code
        return Admitted(codes, refused, list(fresh))

    def begin(self, batch: Batch) -> None:
        """Name the classes that come first in this batch; they get learners when their first row is learned."""
        for name in batch.notes.get("classes", ()):
            if name not in self.codes:
                self.codes[name] = len(self.names)
                self.names.append(name)

    def _learn(self, rows: Rows, labels: Floats, weights: Floats | None) -> Learned:
        """Learn up to the first row of a new class, make room for it, and so on."""
        count = labels.size
        codes = labels.astype(np.int64)
        margins, taken = np.full((count, len(self.names)), -np.inf), np.ones(count, dtype=bool)
        start = 0
        while start < count:
            beyond = np.flatnonzero(codes[start:] >= self.learner.n_classes)
            stop = start + int(beyond[0]) if beyond.size else count
            if stop == start:
                while codes[start] >= self.learner.n_classes:
                    self.learner.add_class()
                continue
            part = slice(start, stop)
            try:
                found = self.learner.learn(
                    part_of(rows, start, stop), codes[part], None if weights is None else weights[part]
                )
            except UpdateError as error:
                found, stop = error.predictions, start + error.row
                taken[stop] = False
            known = found.shape[1] if found.ndim == 2 else 0
            margins[start:stop, :known] = found[:, :known] if known else -np.inf
            start = stop if taken[stop : stop + 1].all() else stop + 1
        self._count(codes, margins, taken, weights)
        return Learned(margins, taken)

    def _count(self, codes: Any, margins: Floats, taken: Any, weights: Floats | None) -> None:
        losses, wrong = self.losses(codes.astype(np.float64), margins)
        assert wrong is not None
        shares = np.ones(codes.size) if weights is None else weights
        for row in np.flatnonzero(taken).tolist():  # row by row, so that no cut of the stream changes a bit
            self.sums["rows"] += 1
            self.sums["weight"] += float(shares[row])
            self.sums["loss"] += float(shares[row] * losses[row])
            self.sums["mistakes"] += float(shares[row] * wrong[row])

    def losses(self, labels: Floats, margins: Floats) -> tuple[Floats, Floats | None]:
        """−ln of the probability given to the true class, and whether another was likelier."""
        codes = labels.astype(np.int64)
        if not codes.size or not margins.shape[1]:
            return np.zeros(codes.size), np.zeros(codes.size)
        found = self.probabilities(margins)
        mine = found[np.arange(codes.size), codes]
        return -np.log(np.maximum(mine, 1e-15)), (found.argmax(axis=1) != codes).astype(np.float64)

    def probabilities(self, margins: Floats) -> Floats:
        """(rows, K); a class without a margin has none, and where no class has one all are alike."""
        known = np.isfinite(margins)
        found = np.zeros(margins.shape)
        for row in range(len(margins)):
            if known[row].any():
                some = margins[row][known[row]][np.newaxis]
                found[row, known[row]] = probabilities(some, self.loss)[0] if some.size > 1 else 1.0
            else:
                found[row] = 1.0 / max(margins.shape[1], 1)
        return found

    def save(self, path: model_file.PathLike, notes: Mapping[str, Any] | None = None) -> None:
        """A model file of many classes, with their names."""
        told = {"names": self.names, "sums": self.sums, "reading": self.reading, "loss": self.loss}
        self.learner.save(path, {"serve_classes": told, **(notes or {})})

    def copy(self) -> Model:
        """The model as it is now."""
        twin = copy.copy(self)
        twin.learner = copy.deepcopy(self.learner)
        twin.names, twin.codes, twin.sums = list(self.names), dict(self.codes), dict(self.sums)
        return twin

    def predict(self, rows: Rows) -> Floats:
        """Margins (rows, K)."""
        if not self.learner.n_classes:
            return np.empty((rows.shape[0], 0))
        return super().predict(rows)


def new_classes(method: str, options: dict[str, Any], reading: dict[str, Any]) -> ClassModel:
    """An empty model for any number of classes."""
    given = {"loss": "logistic", **options}
    loss = str(given["loss"])
    if loss not in ("logistic", "softmax"):
        raise InputError(f"loss={loss!r}: many classes are learned with logistic or softmax loss.")
    shared = "shared" if loss == "softmax" else "one-vs-rest"
    learner = class_model(method, shared, 0, given, open_ended=True, threads=1)
    sums = {"rows": 0, "weight": 0.0, "loss": 0.0, "mistakes": 0.0}
    return ClassModel(learner, loss, [], sums, reading)


def load_classes(content: model_file.Content) -> ClassModel:
    """The model of a file that the service wrote."""
    told = content.notes["serve_classes"]
    return ClassModel(model_file.build(content), told["loss"], told["names"], told["sums"], told["reading"])
