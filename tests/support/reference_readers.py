"""The text formats by their plain definitions, one line at a time: what the compiled parsers must agree with.

Each function takes a line without its newline and returns None for a line that is no row (blank, comment), BAD for a
bad one, or what the row holds. Columns of VW and CSV are hashed by ``column``, written here from the published
description of MurmurHash3 with whole numbers of any size.
"""

from __future__ import annotations

import math
import re

BAD = "bad"
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
MISSING = (b"", b"NA", b"N/A", b"n/a", b"nan", b"NaN", b"NAN", b"null", b"NULL", b"None", b"?")


def number(word: bytes) -> float | None:
    """A finite number, or None."""
    if not NUMBER.fullmatch(word):
        return None
    value = float(word)
    return value if math.isfinite(value) else None


def murmur(key: bytes, seed: int) -> int:
    """MurmurHash3_x86_32."""
    full, h = 2**32, seed

    def rotated(x: int, r: int) -> int:
        return ((x << r) | (x >> (32 - r))) % full

    def mixed(k: int) -> int:
        return rotated(k * 0xCC9E2D51 % full, 15) * 0x1B873593 % full

    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        h = (rotated(h ^ mixed(int.from_bytes(key[at : at + 4], "little")), 13) * 5 + 0xE6546B64) % full
    h ^= mixed(int.from_bytes(key[whole:], "little")) ^ len(key)
    h = (h ^ (h >> 16)) * 0x85EBCA6B % full
    h = (h ^ (h >> 13)) * 0xC2B2AE35 % full
    return h ^ (h >> 16)


def name_hash(name: bytes, seed: int) -> int:
    """A name of digits is its number plus the seed; others go through MurmurHash3."""
    return (int(name) + seed) % 2**32 if re.fullmatch(rb"\d+", name) else murmur(name, seed)


def libsvm(line: bytes):
    """(label, group, [(index, value), ...])."""
    words = line.split(b"#")[0].split()
    if not words:
        return None
    label = number(words.pop(0))
    group = -1
    if words and (found := re.fullmatch(rb"qid:(\d{1,18})", words[0])):
        group = int(found[1])
        words.pop(0)
    entries = []
    for word in words:
        found = re.fullmatch(rb"(\d{1,18}):(.*)", word, flags=re.DOTALL)
        value = number(found[2]) if found else None
        if found is None or value is None:
            return BAD
        entries.append((int(found[1]), value))
    return BAD if label is None else (label, group, entries)


def vw(line: bytes, bits: int = 18):
    """(label, weight, initial, tag, [(column, value), ...])."""
    if not line.strip():
        return None
    head, bar, rest = line.partition(b"|")
    if not bar:
        return BAD
    words = head.split()
    tag = b""
    if words and (not head[-1:].isspace() or words[-1].startswith(b"'")):
        tag = words.pop().removeprefix(b"'")
    numbers = [number(word) for word in words]
    if len(numbers) > 3 or None in numbers or (len(numbers) > 1 and numbers[1] < 0):
        return BAD
    label, weight, initial = (numbers + [math.nan, 1.0, 0.0][len(numbers) :])[:3]
    entries = []
    spaces = rest.split(b"|")
    for k, space in enumerate(spaces):
        if not space and k < len(spaces) - 1:
            return BAD
        words = space.split()
        seed, scale, nameless = 0, 1.0, 0
        if space and not space[:1].isspace():
            name, colon, factor = words.pop(0).partition(b":")
            scale = number(factor) if colon else 1.0
            if not name or scale is None:
                return BAD
            seed = name_hash(name, 0)
        for word in words:
            name, colon, text = word.partition(b":")
            if name:
                h = name_hash(name, seed)
            else:
                h = seed + nameless
                nameless += 1
            value, factor = number(text) if colon else 1.0, scale
            if value is None:
                if not re.match(rb"[^+,\-./0-9:]", text) or re.match(rb"(nan|inf|infinity)(?![a-z0-9_])", text, re.I):
                    return BAD
                h, value, factor = name_hash(text, h), 1.0, 1.0  # the scale of a namespace is not for categories
            value *= factor
            if not math.isfinite(value):
                return BAD
            if value != 0.0:
                entries.append((h % 2**bits, value))
    return label, weight, initial, tag, entries


def fields(line: bytes, delimiter: bytes = b","):
    """The fields of a line of separated values, or BAD; blanks around them do not count."""
    space = b" \r" if delimiter == b"\t" else b" \r\t"
    found = []
    while True:
        line = line.lstrip(space)
        if line.startswith(b'"'):
            match = re.match(rb'"((?:[^"]|"")*)"(?!")', line)
            if match is None:
                return BAD
            rest = line[match.end() :].lstrip(space)
            if rest and not rest.startswith(delimiter):
                return BAD
            found.append(match[1].replace(b'""', b'"'))
            line = rest
        else:
            stop = line.find(delimiter)
            stop = len(line) if stop < 0 else stop
            found.append(line[:stop].rstrip(space))
            line = line[stop:]
        if not line:
            return found
        line = line[1:]


def records(data: bytes, delimiter: bytes = b","):
    """The records of separated values: lines, longer where a quoted field holds line ends and ends as a field does."""
    space = b" \r" if delimiter == b"\t" else b" \r\t"
    found, start = [], 0
    while start < len(data):
        at = start
        while True:
            line_end = data.find(b"\n", at) % (len(data) + 1)
            while at < len(data) and data[at] in space:
                at += 1
            quoted = re.compile(rb'"(?:[^"]|"")*"(?!")').match(data, at)
            at = quoted.end() if quoted else at
            while quoted and at < len(data) and data[at] in space:
                at += 1
            if data[at : at + 1] == b'"' or (quoted and data[at : at + 1] not in (b"", b"\n", delimiter)):
                at = line_end  # a bad field ends with its first line
            at = min(data.find(mark, at) % (len(data) + 1) for mark in (b"\n", delimiter))
            if data[at : at + 1] != delimiter:
                break
            at += 1
        found.append(data[start:at])
        start = at + 1
    return found


def amount(field: bytes) -> float | None:
    """A number in a table: also with a currency sign, a per cent sign or commas between thousands."""
    sign = "[$£¥€₹]"
    digits = r"(?P<whole>\d{1,3}(?:,\d{3})+|\d*)(?P<fraction>(?:\.\d*)?)(?P<power>(?:[eE][-+]?\d+)?)"
    text = field.decode("utf-8", "replace")
    found = re.fullmatch(rf"([-+]?)[ \t\r\n]*({sign}?)[ \t\r\n]*([-+]?){digits}[ \t\r\n]*(%|{sign}?)", text, re.ASCII)
    plain = number(field)
    if plain is not None or found is None or not re.search(r"\d", found["whole"] + found["fraction"]):
        return plain
    first, before, second, *_, after = found.groups()
    blank = re.match(r"[-+]?[ \t\r\n]", text) or re.match(rf"[-+]?{sign}[ \t\r\n]*[-+][ \t\r\n]", text)
    if blank or (first and second) or (second and not before) or (before and after not in ("", "%")):
        return None
    whole = found["whole"].replace(",", "")
    return number(f"{first or second}{whole}{found['fraction']}{found['power']}".encode())


def dense_csv(line: bytes, count: int, zero: bool, delimiter: bytes = b","):
    """(label, [values]) of a line whose first column is the label and whose others are numbers."""
    if not line.strip(b" \r" if delimiter == b"\t" else b" \r\t"):
        return None
    parts = fields(line, delimiter)
    if parts == BAD or len(parts) != count:
        return BAD
    values = [0.0 if zero and part in MISSING else amount(part) for part in parts[1:]]
    label = None if parts[0] in MISSING else amount(parts[0])
    return BAD if label is None or None in values else (label, values)


def mixed_csv(line: bytes, names: list[bytes], bits: int = 18):
    """(label, [(column, value), ...]) of a line with a label, then a word, then numbers; missing values are 0."""
    if not line.strip(b" \r\t"):
        return None
    parts = fields(line)
    if parts == BAD or len(parts) != len(names):
        return BAD
    label = None if parts[0] in MISSING else amount(parts[0])
    entries = []
    if parts[1] not in MISSING:
        entries.append((name_hash(names[1] + b"=" + parts[1], 0) % 2**bits, 1.0))
    for name, part in zip(names[2:], parts[2:], strict=True):
        value = 0.0 if part in MISSING else amount(part)
        if value is None:
            return BAD
        if value != 0.0:
            entries.append((name_hash(name, 0) % 2**bits, value))
    return BAD if label is None else (label, entries)
