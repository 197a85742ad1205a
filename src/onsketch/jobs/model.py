"""A trained learner with the schema of its data: rows by name in, labels out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, some
from onsketch.core.probabilities import probabilities
from onsketch.core.rwlock import Locked
from onsketch.data.columns import refuse_changed
from onsketch.data.task import Task
from onsketch.files import model_file
from onsketch.jobs.plans import Plan
from onsketch.jobs.predictions import check_kind, classes_of, labels_of
from onsketch.jobs.training import Training
from onsketch.learners.rows import as_weights
from onsketch.rows.arrays import as_columns
from onsketch.rows.encoder import Encoder, flattened
from onsketch.rows.hashing import DEFAULT_BITS
from onsketch.rows.interactions import Interactions, as_interactions
from onsketch.rows.labels import Labels
from onsketch.rows.names import Names
from onsketch.rows.schema import FEATURES, Schema, matched

Floats = NDArray[np.float64]

SAMPLE = 100
"""Rows of a table in which columns are compared with those of the training."""


def products_of(reading: Mapping[str, Any]) -> Interactions:
    """Return the products of columns with which a model was trained."""
    quadratic, cubic, interact = (reading.get(name) or () for name in ("quadratic", "cubic", "interact"))
    return as_interactions(quadratic, cubic, interact)


def encoder_of(schema: Schema, reading: Mapping[str, Any], names: Names | None = None) -> Encoder:
    """Return the encoder of rows for a model with this schema, trained with these options of reading."""
    bits, missing = reading.get("bits") or DEFAULT_BITS, reading.get("missing") or "indicate"
    return Encoder(schema, bits, missing, names, products_of(reading))


class Model(Locked):
    r"""A model that the program, a cluster or the service trained on named columns; :func:`onsketch.load` returns it.

    Rows are a data frame (pandas or polars), an Arrow table or batch, a list of dictionaries, or a plain matrix whose
    columns are those of the training. Columns are matched by name: a missing one counts as missing values, with a
    warning; an unknown one is left out, with a warning; one whose type has changed is refused.

    It may be used from several threads: one learns at a time, and any number predict between two calls.

    Attributes:
        learner: the learner itself, which takes rows of numbers and returns margins.
        task: what labels mean.
        schema: the columns.

    >>> import onsketch, tempfile, os
    >>> from onsketch.jobs.training import Plan, Training
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "rows.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("age,job,bought\n" + "31,cook,yes\n62,clerk,no\n" * 50)
    >>> job = Training(Plan([path], "adagrad", {}, {"label": "bought"}))
    >>> _ = list(job.run())
    >>> job.save(path + ".model")
    >>> model = onsketch.load(path + ".model")
    >>> model.predict([{"age": 30, "job": "cook"}, {"age": 61, "job": "clerk"}]).tolist()
    ['yes', 'no']
    >>> model.learn([{"age": 45, "job": "cook"}], ["no"]).tolist()  # the labels predicted before
    ['yes']
    >>> folder.cleanup()
    """

    reads = ("classes_", "save")

    def __init__(self, job: Training) -> None:
        self._job = job
        assert job.task is not None
        assert job.schema is not None
        self.task: Task = job.task
        self.schema = Schema.from_state(job.schema)
        self._encoder = encoder_of(self.schema, job.reading)
        self._features = [field.name for field in self.schema.of(*FEATURES)]

    def __repr__(self) -> str:
        return f"<onsketch model: {self.task}, {len(self._features)} columns, {self.learner!r}>"

    @property
    def learner(self) -> Any:
        """The learner."""
        return self._job.learner

    @property
    def loss(self) -> str:
        """The loss that the learner minimises."""
        return self._job.loss

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the columns of ``predict_proba``."""
        if self.task.kind == "regression":
            raise AttributeError("a model of numbers has no classes.")
        return classes_of(self.task)

    def decision_function(self, X: Any) -> Floats:
        """Return the margins: (rows,) for two classes and for numbers, (rows, classes) for many classes."""
        return np.asarray(self.learner.predict(self.rows(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest label of each row, or the number predicted."""
        check_kind("label", self.task, self.loss)
        rows = self.rows(X)
        with self.lock.reading:
            return labels_of(self.learner.predict(rows), self.task, self.loss)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, (rows, classes), in the order of ``classes_``."""
        check_kind("probability", self.task, self.loss)
        return probabilities(self.decision_function(X), self.loss)

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> NDArray[Any]:
        """Learn from these rows and labels, one after the other, in one pass.

        A class that is new becomes one more where there are many; rows without a label are refused.

        Returns:
            the label predicted for each row *before* it was learned.
        """
        rows = self.rows(X)
        labels = _listed(y)
        if len(labels) != rows.shape[0]:
            raise InputError(f"y: {len(labels)} labels for {rows.shape[0]} rows.")
        weights = None if sample_weight is None else as_weights(sample_weight, len(labels))
        lock = self.lock
        with lock.writer, lock.writing:
            rounds, known = self.learner.rounds, len(self.task.names or [])
            try:
                margins, _, _ = self._job._absorb(rows, self._targets(labels), weights)
            except BaseException:
                if self.task.many:
                    self._forget_classes(known if self.learner.rounds == rounds else self.learner.n_classes)
                raise
            return labels_of(margins, self.task, self.loss)

    def _forget_classes(self, count: int) -> None:
        """Keep the first classes only; no row of the others was learned."""
        while self.learner.n_classes > count:
            self.learner.drop_class()
        del (self.task.names or [])[count:]

    def save(self, path: model_file.PathLike) -> None:
        """Write the model with its task and schema; the program and the service read it, too."""
        self._job.save(path)

    def rows(self, X: Any) -> Any:
        """Return rows by name as the learner takes them, CSR or dense."""
        if isinstance(X, Mapping):
            X = [X]
        if isinstance(X, (list, tuple)) and X and isinstance(X[0], Mapping):
            return self._objects(X)
        if hasattr(X, "collect") and not hasattr(X, "to_arrow"):
            raise InputError("X: a lazy frame has no rows yet; call collect() first.")
        columns = as_columns(X)
        if columns is None:
            return self._matrix(X)
        sample = {name: _listed(cells[:SAMPLE]) for name, cells in columns.items() if name in self._kinds}
        self._check(sample, columns)
        return self._encoder.columns(columns, X.shape[0])

    def _objects(self, X: Sequence[Any]) -> Any:
        for row in X:
            if not isinstance(row, Mapping):
                raise InputError(f"X: expected dictionaries only, found {type(row).__name__}.")
        flat = [flattened(row) for row in X[:SAMPLE]]
        names = dict.fromkeys(name for row in flat for name in row)
        self._check({name: [row.get(name) for row in flat] for name in names}, whole=len(flat) == len(X))
        return self._encoder.objects(X)

    def _matrix(self, X: Any) -> Any:
        if not hasattr(X, "tocsr"):
            words = getattr(getattr(X, "dtype", None), "kind", "f") in "OU"
            X = np.asarray(X, dtype=None if words else np.float64)
        if X.ndim != 2:
            raise InputError(
                f"X: expected rows of {len(self._features)} columns, found an array of {X.ndim} dimensions."
            )
        if X.shape[1] != len(self._features):
            if self.schema.hashed and X.shape[1] == self.learner.n_features:
                return X  # encoded already
            raise InputError(
                f"X: {X.shape[1]} columns; the model was trained on {len(self._features)}: {some(self._features)}."
            )
        X = X.toarray() if hasattr(X, "tocsr") else X
        return self._encoder.columns({name: X[:, k] for k, name in enumerate(self._features)}, X.shape[0])

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return {field.name: field.kind for field in self.schema.fields}

    def _check(
        self, sample: Mapping[str, Sequence[Any]], columns: Mapping[str, Any] | None = None, whole: bool = True
    ) -> None:
        """Compare the columns of a table with those of the training, by name."""
        names = sample if columns is None else columns
        gone = [name for name in self._features if name not in names] if whole else []
        for note in matched(self.schema, "X", names, gone, [name for name in names if name not in self._kinds]):
            warnings.warn(note, UserWarning, stacklevel=5)
        # A cell of numbers that is none is refused by itself.
        refuse_changed("X", self.schema.of("category"), sample, self.schema.missing_words)

    def _targets(self, labels: list[Any]) -> Floats:
        """Labels as the learner takes them: −1 and +1, codes of classes, or numbers."""
        task = self.task
        read = Labels(task.named, words=task.words, gaps=self.schema.missing_words)
        y = np.empty(len(labels))
        for row, label in enumerate(labels):
            try:
                y[row] = read.one(label)
            except InputError as error:
                raise InputError(f"y: row {row}: {error}.") from None
        words = read.classes if task.words else None
        codes = task.encode(y, words, grow=task.many)
        strange = task.strange(codes)
        if strange.any():
            raise InputError(f"y: the label {labels[int(strange.argmax())]!r} is unknown; this is a {task}.")
        if not task.signs:
            return codes
        signs = np.where(codes == task.positive, 1.0, -1.0)
        self._job.positives += int(np.count_nonzero(signs > 0.0))
        return signs


def from_content(content: model_file.Content) -> Model:
    """Build the model of a file whose notes describe its training."""
    method = content.header.get("method")
    job = Training(Plan([], method["name"] if isinstance(method, dict) else str(method)))
    job.go_on(content)
    return Model(job)


def _listed(cells: Any) -> list[Any]:
    """Return cells of a list, an array or a column as Python objects."""
    return list(cells.to_pylist() if hasattr(cells, "to_pylist") else getattr(cells, "tolist", lambda: cells)())
