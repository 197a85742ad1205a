"""Labels as numbers: themselves, the places of classes named by words, or +1 and −1 where one class is to be found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.core.errors import InputError, shown
from onsketch.rows.arrays import Faults, as_floats, cells_of, distinct, is_numeric
from onsketch.rows.schema import GAPS, is_gap, number_of, word_of

MOST_CLASSES = 10_000
"""Different words that labels may be."""

NO_LABEL = "the label is missing"


class Labels:
    """Turns labels into numbers, by the same rule for single cells and for columns.

    >>> labels = Labels(words=True)
    >>> labels.one("red"), labels.one("blue"), labels.one("red"), labels.classes
    (0.0, 1.0, 0.0, ['red', 'blue'])
    >>> Labels(positive="2").one(2.0), Labels(unlabelled=True).one(None)
    (1.0, nan)
    """

    def __init__(
        self, positive: str | None = None, words: bool = False, unlabelled: bool = False, comma: bool = False,
        gaps: frozenset[Any] = GAPS,
    ) -> None:  # fmt: skip
        self.positive, self.words, self.unlabelled, self._comma = positive, words, unlabelled, comma
        self._gaps = gaps
        self.classes: list[str] = []
        """Words seen, in order; a label is an index into them."""
        self._codes: dict[str, int] = {}

    def one(self, label: Any) -> float:
        """A label as a number; NaN where it is missing and may be."""
        if is_gap(label, self._gaps):
            if self.unlabelled:
                return float("nan")
            raise InputError(NO_LABEL)
        number = number_of(label, self._comma)
        if self.positive is not None:
            same = word_of(label) == self.positive if number is None else number == number_of(self.positive)
            return 1.0 if same or word_of(label) == self.positive else -1.0
        if self.words:
            return self.code(word_of(label))
        if number is None:
            raise InputError(
                f'the label {shown(label)} is no number; name the class to learn with positive="..."', positive="..."
            )
        return number

    def code(self, word: str) -> float:
        """Return the index of a class, which is added if it is new."""
        code = self._codes.get(word)
        if code is None:
            if len(self.classes) >= MOST_CLASSES:
                raise InputError(
                    f"labels: more than {MOST_CLASSES:,} different words are no classes; is it this column?"
                )
            code = self._codes[word] = len(self.classes)
            self.classes.append(word)
        return float(code)

    def column(self, cells: Any, count: int, name: str, faults: Faults) -> NDArray[np.float64]:
        """A column of labels; new classes come in the order of the rows."""
        cells = cells_of(cells)
        if is_numeric(cells) and not self.words and self.positive is None:
            labels = as_floats(cells)
            faults.add(np.isinf(labels), name, "an infinite value")
            faults.add(np.isnan(labels) & (not self.unlabelled), name, NO_LABEL)
            return labels
        codes, different = distinct(cells, count)
        used, first = np.unique(codes, return_index=True)
        found = np.full(len(different), np.nan)
        for code in used[np.argsort(first)].tolist():
            try:
                found[code] = self.one(different[code])
            except InputError as error:
                faults.add(codes == code, name, str(error))
        return found[codes]
