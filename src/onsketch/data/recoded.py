"""Conversion of other encodings and of JSON arrays to lines of UTF-8."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable

_CHUNK = 1 << 18


class Decoded:
    """Text of any encoding as UTF-8. A UnicodeDecodeError names invalid bytes.

    >>> import io
    >>> Decoded(io.BytesIO("né".encode("latin-1")).read, "latin-1").read1(9).decode()
    'né'
    """

    def __init__(self, read: Callable[[int], bytes], encoding: str) -> None:
        self._read, self._decoder, self._waiting = read, codecs.getincrementaldecoder(encoding)(), b""

    def read1(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        while not self._waiting:
            data = self._read(_CHUNK) or b""
            self._waiting = self._decoder.decode(data, final=not data).removeprefix("\ufeff").encode()
            if not data:
                break
        data, self._waiting = self._waiting[:size], self._waiting[size:]
        return data


class ArrayLines:
    """Elements of a JSON array, each on a line of its own. A ValueError reports text that is no array.

    >>> import io
    >>> ArrayLines(io.BytesIO(b'[{"a": 1}, {"b": 2}]').read, 1000).read1(99).splitlines()
    [b'{"a": 1}', b'{"b": 2}']
    """

    def __init__(self, read: Callable[[int], bytes], longest: int) -> None:
        self._read, self._longest, self._decoder = read, longest, json.JSONDecoder()
        self._text = codecs.getincrementaldecoder("utf-8-sig")()
        self._buffer, self._begun, self._ended, self._waiting = "", False, False, b""

    def read1(self, size: int) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        while not self._waiting and not self._ended:
            data = self._read(_CHUNK) or b""
            self._buffer += self._text.decode(data, final=not data)
            self._waiting = self._elements(last=not data).encode()
        data, self._waiting = self._waiting[:size], self._waiting[size:]
        return data

    def _elements(self, last: bool) -> str:
        """Remove the complete elements from the buffer and return them."""
        text, lines = self._buffer.lstrip(), []
        if not self._begun and text:
            text, self._begun = text[1:].lstrip(), True
        while text and not self._ended:
            if text[0] == "]":
                self._ended, text = True, text[1:].strip()
                if text:
                    raise ValueError(f"the array is followed by {text[:16]!r}")
                break
            try:
                _, end = self._decoder.raw_decode(text)
            except ValueError:
                if last or len(text) > self._longest:
                    raise
                break
            after = text[end:].lstrip()
            if not after and not last:
                break  # a number may continue
            if after[:1] not in (",", "]"):
                raise ValueError(f"expected a comma, found {after[:16]!r}")
            lines.append(text[:end].replace("\r", " ").replace("\n", " ") + "\n")
            text = after[1:].lstrip() if after[0] == "," else after
        if last and not self._ended:
            raise ValueError("the array does not end")
        self._buffer = text
        return "".join(lines)
