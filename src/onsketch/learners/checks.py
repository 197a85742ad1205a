"""Checks of an option's value: each takes name and value, and returns the value in its own type or raises.

The error names the option, the value and the expectation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from onsketch.core.errors import OptionError


class Check(Protocol):
    """Type of a check."""

    def __call__(self, name: str, value: Any) -> Any:
        """The value in its own type, or an OptionError."""


@dataclass(frozen=True)
class Number:
    """A finite number within [low, high], or (low, high] where low itself is not allowed."""

    low: float = 0.0
    high: float = math.inf
    above: bool = False
    """True if the value must be above low; else low is allowed."""

    def __call__(self, name: str, value: Any) -> float:
        """The number."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise OptionError(f"{name}={value!r}: expected a number.", **{name: value}) from None
        inside = self.low < number if self.above else self.low <= number
        if not (inside and number <= self.high and math.isfinite(number)):
            high = f"{self.high:g}"
            ends = "(" if self.above else "[", "]" if float(high) == self.high else ")"  # the number just below 1
            raise OptionError(
                f"{name}={value!r}: expected a number in {ends[0]}{self.low:g}, {high}{ends[1]}.", **{name: value}
            )
        return number


@dataclass(frozen=True)
class Whole:
    """A whole number from low to high."""

    low: int = 0
    high: int = 2**31 - 1

    def __call__(self, name: str, value: Any) -> int:
        """The number."""
        if isinstance(value, bool) or not hasattr(value, "__index__") or not self.low <= int(value) <= self.high:
            raise OptionError(
                f"{name}={value!r}: expected a whole number from {self.low} to {self.high}.", **{name: value}
            )
        return int(value)


@dataclass(frozen=True)
class Choice:
    """One of a few words; types such as ``numpy.float32`` count by their name."""

    words: tuple[str, ...]

    def __call__(self, name: str, value: Any) -> str:
        """The word."""
        word = value if isinstance(value, str) else getattr(value, "__name__", None) or str(value)
        if word not in self.words:
            raise OptionError(f"{name}={value!r}: expected one of {', '.join(map(repr, self.words))}.", **{name: value})
        return str(word)


@dataclass(frozen=True)
class Either:
    """Check for one special word, or a value that another check accepts."""

    word: str
    other: Check

    def __call__(self, name: str, value: Any) -> Any:
        """Return the word, or the value as converted by the other check."""
        return value if isinstance(value, str) and value == self.word else self.other(name, value)


@dataclass(frozen=True)
class Function:
    """A function of the user's own, or what another check lets through."""

    other: Check

    def __call__(self, name: str, value: Any) -> Any:
        """Return the function, or the value as converted by the other check."""
        return value if callable(value) else self.other(name, value)


@dataclass(frozen=True)
class Pair:
    """Two numbers within [low, high], the first not above the second where they are bounds."""

    low: float = -math.inf
    high: float = math.inf
    ordered: bool = False

    def __call__(self, name: str, value: Any) -> tuple[float, float]:
        """The numbers."""
        try:
            first, second = (float(part) for part in value)
        except (TypeError, ValueError):
            raise OptionError(f"{name}={value!r}: expected a pair of numbers.", **{name: value}) from None
        for part in (first, second):
            if not self.low <= part <= self.high:
                raise OptionError(
                    f"{name}={value!r}: expected numbers in [{self.low:g}, {self.high:g}].", **{name: value}
                )
        if self.ordered and not first <= second:
            raise OptionError(f"{name}={value!r}: the lower bound must not exceed the upper one.", **{name: value})
        return first, second


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if value not in (True, False):
        raise OptionError(f"{name}={value!r}: expected True or False.", **{name: value})
    return bool(value)
