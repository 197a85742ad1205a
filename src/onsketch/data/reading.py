"""Entry point of reading: ``stream`` takes files, standard input or addresses, and yields blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from onsketch.core.errors import InputError, OptionError, ReadError
from onsketch.data.block import Block, Position
from onsketch.data.labels import LabelMap
from onsketch.data.prefetch import ahead
from onsketch.data.sniff import FORMATS, sniff
from onsketch.data.sources import CHUNK, STDIN, UNPACKING, Bytes, Paths, can_be_read_again, codec, expand, shown
from onsketch.data.text import LONGEST_LINE, Limits, TextFormat, read_text
from onsketch.rows.hashing import DEFAULT_BITS, column_mask
from onsketch.rows.interactions import MOST_PRODUCTS, as_interactions
from onsketch.rows.names import Names

if TYPE_CHECKING:
    from onsketch.data.arrow import Tables
    from onsketch.data.columns import Column

BLOCK_ROWS = 16_384
BLOCK_BYTES = 4 << 20

_NAMED = ("csv", "json", "parquet", "arrow")
_CONCERNS: dict[str, tuple[str, ...]] = {
    "zero_based": ("libsvm",),
    "n_features": ("libsvm",),
    "header": ("csv",),
    "delimiter": ("csv",),
    "decimal": ("csv",),
    "encoding": ("libsvm", "vw", "csv", "json"),
    **dict.fromkeys(("ignore", "keep"), ("vw", "csv", "json", "parquet", "arrow")),
    **dict.fromkeys(("label", "weight", "tag"), _NAMED),
    **dict.fromkeys(("categorical", "numeric", "text", "dates", "word_pairs", "day_first"), _NAMED),
    **dict.fromkeys(("missing", "na_values", "interact", "columns"), _NAMED),
}
"""Formats that an option applies to; the others apply to all."""

_DEFAULTS: dict[str, Any] = {
    "zero_based": True,
    "n_features": None,
    "header": "auto",
    "delimiter": "auto",
    "decimal": "auto",
    "encoding": None,
    "label": "auto",
    "weight": None,
    "tag": None,
    "ignore": (),
    "keep": (),
    "categorical": "auto",
    "numeric": (),
    "text": (),
    "dates": (),
    "word_pairs": False,
    "day_first": None,
    "missing": None,
    "na_values": (),
    "interact": (),
    "columns": (),
}


class Stream:
    """Iterator over blocks. Reading runs ahead in its own thread; ``close`` (or ``with``) ends it early."""

    def __init__(self, paths: Paths, format: str | None, options: dict[str, Any]) -> None:
        self.files = expand(paths)
        """The files, in the order of reading."""
        self._options = options
        most = _whole("max_products", options["max_products"])
        self._pairs = as_interactions(options["quadratic"], options["cubic"], options["interact"], most)
        self._limits = Limits(
            _whole("block_rows", options["block_rows"]),
            _whole("block_bytes", options["block_bytes"]),
            options["on_error"] == "skip",
            options["eager"],
            _whole("max_line_bytes", options["max_line_bytes"], CHUNK),
            _whole("max_unpack_bytes", options["max_unpack_bytes"], CHUNK),
            options["encoding"],
        )
        if options["on_error"] not in ("stop", "skip"):
            raise OptionError(
                f'on_error={options["on_error"]!r}: it is "stop" or "skip".', on_error=options["on_error"]
            )
        if options["encoding"] is not None:
            codec(options["encoding"])
        if format is not None and format not in FORMATS:
            raise OptionError(f"format={format!r}: known are {', '.join(FORMATS)}.", format=format)
        self._names = Names(words=options["names"])
        self.names = self._names.known
        """Names of columns of X, as far as read: those of tables, and with ``names=True`` all hashed features."""
        self.position = self._start(options["resume"])
        """Position of the stream after the blocks taken so far."""
        self._opened: Bytes | None = None
        self.format = format or self._sniff()
        """One of libsvm, vw, csv, json, parquet, arrow."""
        self._form = self._make_form()
        positive = options["positive"]
        numeric = self.format in ("libsvm", "vw") and positive is not None
        self._signs = LabelMap(_number("positive", positive)) if numeric else None
        depth = options["prefetch"]
        self._blocks: Iterator[Block | Position] = self._read()
        if depth:
            self._blocks = ahead(self._blocks, _whole("prefetch", depth))

    @property
    def skipped(self) -> int:
        """Number of bad lines skipped before and within the blocks taken so far."""
        return self.position.skipped

    @property
    def first_skipped(self) -> ReadError | None:
        """Error of the first bad line skipped."""
        return self._form.first_skipped

    @property
    def schema(self) -> dict[str, Any] | None:
        """Schema of a table as JSON values, available once its first lines are read."""
        found = getattr(self._form, "schema", None)
        return None if found is None else found.state()

    @property
    def classes(self) -> list[str] | None:
        """Words found as labels, which ``y`` indexes; None if labels are numbers."""
        schema = getattr(self._form, "schema", None)
        return self._form.classes if schema is not None and schema.word_labels else None  # type: ignore[union-attr]

    @property
    def notes(self) -> list[str]:
        """Remarks on columns that files lack, which count as missing, and on columns that are left out."""
        return getattr(self._form, "notes", [])

    @property
    def sample(self) -> Mapping[str, Sequence[Any]]:
        """First cells of each column of a table, by which the schema was decided."""
        return getattr(self._form, "sample", {})

    @property
    def unmet(self) -> set[str]:
        """First letters of namespaces in requested products that have not occurred."""
        met = getattr(self._form, "met", None)
        return set() if met is None else {chr(letter) for letter in self._pairs.letters if not met[letter]}

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        for item in self._blocks:
            if isinstance(item, Position):
                self.position = item
                continue
            self.position = item.position
            if self._signs is not None:
                item.y = self._signs(item.y)
            return item
        raise StopIteration

    def beginning(self, file: int) -> Position:
        """Return the position at which a file begins, to read it apart from those before it.

        The first file decides how its rows are read; its width ignores the files between.
        """
        if isinstance(self._form, TextFormat):
            return Position(file=file, width=self._form.width, base=self._form.base)
        return Position(file=file)

    def close(self) -> None:
        """Stop reading, and close the files opened here."""
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _start(self, resume: Position | None) -> Position:
        if resume is None:
            return Position()
        if resume.file >= len(self.files):
            raise InputError(f"cannot resume in file {resume.file + 1} of {len(self.files)}: files are missing.")
        return resume

    def _sniff(self) -> str:
        """Return the format of the first file; bytes read from a pipe for detection are kept for reading."""
        limits = self._limits
        form, opened = sniff(self.files[0], 1 if limits.eager else 2, limits.unpacking, limits.encoding)
        keep = not can_be_read_again(self.files[0])
        if opened is not None and keep and self.position.file == 0:
            self._opened = opened
        elif opened is not None:
            opened.close()
        return form

    def _make_form(self) -> TextFormat | Tables:
        options, rows = self._options, self._limits.rows
        for name, formats in _CONCERNS.items():
            if self.format not in formats and options[name] != _DEFAULTS[name]:
                reason = f"{name}=... does not concern {self.format} files (it concerns {', '.join(formats)})."
                raise OptionError(reason, **{name: ...})
        bits, zero_based = options["bits"], options["zero_based"]
        hashed = DEFAULT_BITS if bits is None else bits
        column_mask(hashed)
        if self.format == "libsvm":
            from onsketch.data.formats import Libsvm

            if zero_based not in (True, False, "auto"):
                raise OptionError(f'zero_based={zero_based!r}: it is True, False or "auto".', zero_based=zero_based)
            width = options["n_features"]
            if zero_based == "auto" and (width is not None or bits is not None or self._pairs):
                raise OptionError(
                    'zero_based="auto" cannot be combined with n_features, bits or quadratic; say which.',
                    zero_based="auto",
                )
            if width is not None and (bits is not None or self._pairs):
                raise OptionError(
                    "n_features cannot be combined with bits or quadratic: those set the width themselves."
                )
            width = None if width is None else _whole("n_features", width)
            form: TextFormat | Tables = Libsvm(rows, zero_based, width, hashed if self._pairs else bits, self._pairs)
        elif self.format == "vw":
            from onsketch.data.formats import VW, Filter

            spaces = Filter(tuple(_words(options["ignore"])), tuple(_words(options["keep"])))
            form = VW(rows, hashed, self._pairs, self._names if self._names.words else None, spaces)
        else:
            from onsketch.data.columns import Roles, as_columns
            from onsketch.rows.schema import Schema

            positive, everyday = options["positive"], options["everyday"]
            plain = "zero" if self.format == "json" else "error"
            roles = Roles(
                label=options["label"],
                weight=options["weight"],
                tag=options["tag"],
                ignore=as_columns(options["ignore"]),
                keep=as_columns(options["keep"]),
                categorical="auto" if options["categorical"] == "auto" else as_columns(options["categorical"]),
                numeric=as_columns(options["numeric"]),
                text=as_columns(options["text"]),
                dates=as_columns(options["dates"]),
                word_pairs=options["word_pairs"],
                day_first=options["day_first"],
                columns=as_columns(options["columns"]),
                positive=None if positive is None else str(positive),
                missing=options["missing"] or ("indicate" if everyday else plain),
                na_values=tuple(_words(options["na_values"])),
                unlabelled=options["unlabelled"],
                everyday=everyday,
            )
            state = options["schema"]
            schema = None if state is None else Schema.from_state(state)
            self._names.words |= everyday
            common = roles, schema, hashed, self._pairs, self._names
            if self.format == "csv":
                from onsketch.data.tables import CSV

                form = CSV(rows, options["header"], options["delimiter"], options["decimal"], *common)
            elif self.format == "json":
                from onsketch.data.json_lines import JSONLines

                form = JSONLines(rows, *common)
            else:
                from onsketch.data.arrow import Tables

                form = Tables(*common)
        return form

    def _read(self) -> Iterator[Block | Position]:
        """Yield all blocks of all files from the position on, and the position at the end of each file."""
        here = self.position
        form = self._form
        if self._options["resume"] is not None and isinstance(form, TextFormat):
            form.resume(here)
            if here.file > 0 and self.files[0] != STDIN:  # the first lines of the first file decide the schema
                first = Bytes(self.files[0], self._limits.unpacking, self._limits.encoding)
                first.skips_bad_lines = self._limits.skipping
                if form.takes_arrays:
                    first.lines_of_array(self._limits.line)
                form.begin(first)
                first.close()
        for k in range(here.file, len(self.files)):
            source = self.files[k]
            if k > here.file:
                here = replace(here, file=k, offset=0, line=0, tail=0, checksum=0)
            opened, self._opened = self._opened, None
            for item in self._read_file(source, opened, here):
                if isinstance(item, Position):
                    here = item
                yield item
        # Rows before a position may have had what is missing after it.
        if isinstance(form, TextFormat) and here.rows and self._options["resume"] is None:
            form.finish(shown(self.files[-1]))

    def _read_file(self, source: Any, opened: Bytes | None, here: Position) -> Iterator[Block | Position]:
        if not isinstance(self._form, TextFormat):
            from onsketch.data.arrow import read_arrow

            yield from read_arrow(source, opened, self._form, here, self._limits, self.format == "parquet")
            return
        bytes_ = opened or Bytes(source, self._limits.unpacking, self._limits.encoding)
        bytes_.skips_bad_lines = self._limits.skipping
        try:
            yield from read_text(bytes_, self._form, here, self._limits)
        finally:
            bytes_.close()


def stream(
    path: Paths,
    format: str | None = None,
    *,
    block_rows: int = BLOCK_ROWS,
    block_bytes: int = BLOCK_BYTES,
    on_error: str = "stop",
    resume: Position | None = None,
    bits: int | None = None,
    quadratic: str | Iterable[str] = (),
    cubic: str | Iterable[str] = (),
    interact: str | Iterable[str | Iterable[str]] = (),
    names: bool = False,
    positive: str | float | None = None,
    zero_based: bool | str = True,
    n_features: int | None = None,
    label: Column | None = "auto",
    unlabelled: bool = False,
    columns: Column | Iterable[Column] = (),
    weight: Column | None = None,
    tag: Column | None = None,
    ignore: Column | Iterable[Column] = (),
    keep: Column | Iterable[Column] = (),
    categorical: str | Iterable[Column] = "auto",
    numeric: Column | Iterable[Column] = (),
    text: Column | Iterable[Column] = (),
    dates: Column | Iterable[Column] = (),
    word_pairs: bool = False,
    day_first: bool | None = None,
    missing: str | None = None,
    na_values: str | Iterable[str] = (),
    header: bool | str = "auto",
    delimiter: str = "auto",
    decimal: str = "auto",
    encoding: str | None = None,
    schema: Mapping[str, Any] | None = None,
    everyday: bool = False,
    eager: bool = False,
    prefetch: int = 2,
    max_line_bytes: int = LONGEST_LINE,
    max_unpack_bytes: int = UNPACKING,
    max_products: int = MOST_PRODUCTS,
) -> Stream:
    r"""Read rows in blocks; memory does not grow with the file, and reading runs ahead in another thread.

    Args:
        path: a file, a pattern, ``-`` for standard input, an address (``s3://...``), an open binary file, or a list
            of names. gz, xz, bz2 and zst are recognised by their first bytes.
        format: libsvm, vw, csv, json (an object a line), parquet or arrow; default: detected by the name, or else the
            first lines.
        block_rows: rows to a block, at most.
        block_bytes: a block ends with the line that reaches this many bytes of text.
        on_error: "stop" raises ReadError at the first bad line, after the rows before it; "skip" skips and
            counts it.
        resume: the ``position`` of a block: reading continues with the row after it.
        bits: hashed columns are numbers below 2^bits; 18 where something is hashed. LIBSVM columns are indices
            and hashed only where ``bits`` is given.
        quadratic: pairs of namespaces to multiply, as ``-q`` of Vowpal Wabbit; "::" for all pairs. In tables a column
            is a namespace, by the first letter of its name.
        cubic: three namespaces to multiply, as ``--cubic`` of Vowpal Wabbit.
        interact: tables: columns to multiply by name, two or three each, as "age,job".
        names: collect the names of hashed features in ``Stream.names``.
        positive: the label that becomes +1, all others −1.
        zero_based: LIBSVM: True takes column = index; False column = index − 1; "auto" is False unless the first
            block has an index 0.
        n_features: LIBSVM: width of all blocks; an index beyond is a bad line. Left out, blocks widen.
        label: tables: the label's column, by name or place; None or "none" for no label; "auto" is the one column
            named label, target, y or class.
        unlabelled: tables: labels may be missing (NaN then), and the columns of label, weight and tag absent.
        columns: tables: columns whose cells each block holds as they are, in ``Block.columns``.
        weight: tables: the column of sample weights.
        tag: tables: the column that names rows.
        ignore: tables: columns left out; VW: namespaces left out, by their first letter or in full.
        keep: the only columns (or namespaces) used as features.
        categorical: tables: columns of categories, hashed as ``name=value``; "auto" are those that hold words in the
            first 500 rows. With any, all columns are hashed and X is sparse.
        numeric: tables: columns of numbers, whatever their first rows hold.
        text: tables: columns of free text, whose words are counted; those of several words are in any case.
        dates: tables: columns of dates; those whose first values are all dates are in any case.
        word_pairs: tables: pairs of neighbouring words of texts are features, too.
        day_first: tables: True for dates as 31/12/2026, False for 12/31/2026; left out, the first rows decide.
        missing: tables: treatment of an empty field (or NA, NaN, null, ?): "error" makes it a bad line, "zero" reads it
            as 0, "indicate" as 0 and sets an indicator feature. Default: "error"; with ``everyday`` "indicate".
        na_values: tables: further words for a missing value, such as "n.a."; -999 means this number in any notation.
        header: CSV: True if the first line names the columns; "auto": unless it holds a number.
        delimiter: CSV: one character; "auto" is the one of , tab ; | that cuts the first lines alike.
        decimal: CSV: "." or ","; "auto" is a comma where numbers have one and the delimiter is another.
        encoding: encoding of text, such as "latin-1"; default: UTF-8, or UTF-16 with a byte-order mark.
        schema: tables: ``Stream.schema`` of another file; columns are then matched by name.
        everyday: tables: read as the program does. Labels may be words (indices into ``Stream.classes``), names of
            categories are kept, and missing values are indicated. Columns whose words are all distinct are left
            out, and other columns of words are categories in addition to those named.
        eager: text: blocks also end when a pipe pauses, so that available lines are answered at once.
        prefetch: number of blocks read ahead; 0 reads in the calling thread.
        max_line_bytes: text: a longer line is refused, 64 MiB. At least 256 KiB.
        max_unpack_bytes: memory that unpacking zst and xz may take, 128 MiB. Files packed with ``zstd --long=31`` need
            2 GiB. Each unpacked chunk is bounded, whatever the file declares.
        max_products: products of features that a row may make, 2^20; a block may make 64 times as many.

    >>> import io
    >>> import onsketch
    >>> with onsketch.data.stream(io.BytesIO(b"1 2:0.5 7:1\n-1 3:2 # a comment\n")) as blocks:
    ...     for block in blocks:
    ...         print(block, block.y, block.X.indices)
    <block of 2 rows, 8 features, 3 values> [ 1. -1.] [2 7 3]
    """
    options = {name: value for name, value in locals().items() if name not in ("path", "format")}
    return Stream(path, format, options)


def _words(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else [str(word) for word in given]


def _whole(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"{name}={value!r}: expected a whole number from {least:,} on.", **{name: value})
    return value


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise OptionError(f"{name}={value!r}: labels of this format are numbers.") from None
