"""The data sets of the papers: where they come from, what is known of them, and whether they are at hand.

A set is looked for in the folder given, in ``$ONSKETCH_DATA`` and in the cache that ``onsketch data get`` fills,
under the name it is published by or under the other names listed, compressed or not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onsketch.errors import InputError, OptionError

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "https://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_UNSTATED = "none stated (UCI or LIBSVM repository)"


@dataclass(frozen=True)
class File:
    """A published file, and what it may be called in a folder of local copies."""

    address: str
    also: tuple[str, ...] = ()
    checksum: str | None = None
    """``md5:…`` or ``sha256:…`` of the file as published."""
    content: str | None = None
    """SHA-256 of a copy known to work, uncompressed."""

    @property
    def name(self) -> str:
        """Its name in the cache."""
        return self.address.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataSet:
    """A set of the papers."""

    name: str
    rows: int
    features: int
    form: str
    """libsvm, csv, idx, images (for networks only) or made (from other sets)."""
    files: tuple[File, ...]
    papers: tuple[str, ...]
    licence: str = _UNSTATED
    positive: tuple[float | str, ...] | None = None
    """Labels that become +1; left out, the labels are signs."""
    label: str | None = None
    """Label column of a table."""
    note: str = ""
    partial: bool = False
    """Whether the copy at hand may be a part; then it must not be quoted as the whole."""


def _libsvm(
    name: str, rows: int, features: int, path: str, *papers: str, also: tuple[str, ...] = (),
    content: str | None = None,
    **more: Any,
) -> DataSet:  # fmt: skip
    file = File(_LIBSVM + path, (name, *also), content=content)
    return DataSet(name, rows, features, "libsvm", (file,), papers, **more)


def _idx(
    name: str, rows: int, base: str, stem: str, prefix: str, papers: tuple[str, ...],
    sums: tuple[tuple[str, str], tuple[str, str]], **more: Any,
) -> DataSet:  # fmt: skip
    parts = (f"{stem}-images-idx3-ubyte.gz", f"{stem}-labels-idx1-ubyte.gz")
    files = tuple(
        File(base + part, (prefix + part,), f"md5:{md5}", sha256)
        for part, (md5, sha256) in zip(parts, sums, strict=True)
    )
    return DataSet(name, rows, 784, "idx", files, papers, **more)


_SETS = (
    _libsvm("a9a", 32_561, 123, "binary/a9a", "luo2016", "luo2019",
            content="f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
    _libsvm("a9a.t", 16_281, 123, "binary/a9a.t", "luo2016",
            content="7d8c09f1120d9ff231d85caba98956906033f3c4d53e2b15ab7ef83710de6a76"),
    _libsvm("acoustic", 78_823, 50, "multiclass/vehicle/acoustic.bz2", "luo2016", positive=(3.0,)),
    _libsvm("australian", 690, 14, "binary/australian", "luo2016",
            content="25a5d45d53b5db7c402f1bf58aea5ed5f0387ad525ec7f0131585f1f63033b38"),
    _libsvm("breast-cancer", 683, 10, "binary/breast-cancer", "luo2016", positive=(4.0,),
            content="445505b580a88e9e19b533b4f126d3dda1883bc7551e46907041ca263aa3c5d9"),
    _libsvm("cod-rna", 59_535, 8, "binary/cod-rna", "luo2016", also=("cod-rna.30k",), partial=True),
    _libsvm("diabetes", 768, 8, "binary/diabetes", "luo2016",
            content="df5f5a9ac63be40670799246379bd59cd77a556500494783a985e9ad7a69598f"),
    _libsvm("epsilon", 400_000, 2_000, "binary/epsilon_normalized.bz2", "wan2021"),
    _libsvm("epsilon.t", 100_000, 2_000, "binary/epsilon_normalized.t.bz2", "wan2021"),
    _libsvm("german.numer", 1_000, 24, "binary/german.numer", "luo2016",
            content="69ffe0c4ba0bd91f936986d7c070dfca7e22064bbd5ab8e1fb925d6c86024ec8"),
    _libsvm("gisette", 6_000, 5_000, "binary/gisette_scale.bz2", "luo2016", "luo2019", "wan2018", "wan2021"),
    _libsvm("gisette.t", 1_000, 5_000, "binary/gisette_scale.t.bz2", "wan2018", "wan2021"),
    _libsvm("heart", 270, 13, "binary/heart", "luo2016",
            content="f0437e4847e6293a20850ef3fa2a809a1e11250a5b8760b259510bb321652470"),
    _libsvm("ijcnn1", 49_990, 22, "binary/ijcnn1.bz2", "luo2016",
            content="7fe291672c3fefe6a7e3c51529becd23f0e985ba05ffb8d53c9c648c1e91cc19"),
    _libsvm("letter", 15_000, 16, "multiclass/letter.scale", "luo2016", also=("letter.scale",),
            positive=tuple(map(float, range(1, 14))), note="letters A to M against N to Z",
            content="ce2c7df15cc5742dc4382d59079181c97c21e0beaa0af53c84cc5745c69f1020"),
    _libsvm("madelon", 2_000, 500, "binary/madelon", note="not of the papers: hard noise, to test against",
            content="34f9d790481f42d468c4a59515e6c7bb1dcfa5b0c5339e584b998db13f2d6464"),
    _libsvm("mushrooms", 8_124, 112, "binary/mushrooms", "luo2016", positive=(1.0,),
            content="f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),
    _libsvm("news20", 15_935, 62_061, "multiclass/news20.bz2", "luo2016", positive=tuple(map(float, range(1, 11))),
            note="20 newsgroups, the first ten against the others",
            content="1d6eb77c42e1c78e86f36af834268de933da3607f38e3703aef15f7a9f11e506"),
    _libsvm("phishing", 11_055, 68, "binary/phishing", note="not of the papers", also=("phishing.8404",), partial=True),
    _libsvm("rcv1", 20_242, 47_236, "binary/rcv1_train.binary.bz2", "luo2016", "luo2019", also=("rcv1_train.binary",)),
    _libsvm("real-sim", 72_309, 20_958, "binary/real-sim.bz2", "luo2016", "luo2019"),
    _libsvm("skin", 245_057, 3, "binary/skin_nonskin", note="not of the papers", also=("skin_nonskin.30k",),
            positive=(1.0,), partial=True),
    _libsvm("splice", 1_000, 60, "binary/splice", "luo2016",
            content="2604e92095a6e27d828ac704d53b75e603bc2e3d42adba3777dfea039ae31b1d"),
    _libsvm("svmguide1", 3_089, 4, "binary/svmguide1", note="not of the papers",
            content="6af4ac2c8dff259b69186ba7f04f6f11ba883f864a8203eb39dfd8361b92d380"),
    _libsvm("w8a", 49_749, 300, "binary/w8a", "luo2016"),
    _libsvm("w1a", 2_477, 300, "binary/w1a", "luo2016"),
    DataSet("census", 199_523, 401, "csv",
            (File("https://archive.ics.uci.edu/static/public/117/census+income+kdd.zip"),), ("luo2016",),
            "CC BY 4.0 (UCI)", note="to be turned into 401 binary features by hand; not loaded here"),
    DataSet("covtype", 581_012, 54, "csv",
            (File("https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
                  ("covtype.csv",), content="ea35ca6820fcbe0bdc6707e9ed31e11a9de84f07d88da73b511c737383c271a6"),),
            ("luo2016",), "CC BY 4.0 (UCI)", positive=("2",), note="class 2 against the rest, columns scaled to 0..1"),
    DataSet("farm-ads", 4_143, 54_877, "libsvm",
            (File("https://archive.ics.uci.edu/ml/machine-learning-databases/00218/farm-ads-vect", ("farm-ads",),
                  content="cee9de7aef56080a983cfddc22f2fae4dc9fea0804b3d033281c0b4288a4bb11"),),
            ("luo2019",), "CC BY 4.0 (UCI)"),
    DataSet("hiva", 3_845, 1_617, "libsvm",
            (File("https://www.causality.inf.ethz.ch/al_data/HIVA.html", ("hiva",),
                  content="0ea968621cc5393ffc742cc630379fbefe6c55e787cc99eb52dcfb1ae0f3241e"),),
            (), "none stated", note="of sido0's domain (drug activity), where sido0 is absent; the address is a page"),
    DataSet("ionosphere", 351, 34, "csv",
            (File("https://archive.ics.uci.edu/ml/machine-learning-databases/ionosphere/ionosphere.data",
                  ("mlbench_Ionosphere.csv",),
                  content="9d1dac13ab7a4ba1a0aaafec6a96789b54c46b7526be204e35fec1933dd5f56f"),),
            ("luo2016",), "CC BY 4.0 (UCI)", positive=("good", "g"), label="Class"),
    DataSet("reuters", 7_770, 8_315, "libsvm",
            (File("https://github.com/X-DataInitiative/tick-datasets/raw/master/binary/reuters/reuters.trn.bz2",
                  ("reuters.trn",), content="caacd2baf041b15b51ab65c0ec2ac834a439a561fb6708427c1c002c10ac7215"),),
            (), note="Reuters-21578 money-fx: sparse text, where rcv1 and real-sim are absent"),
    DataSet("sido0", 12_678, 4_932, "libsvm", (File("https://www.causality.inf.ethz.ch/data/SIDO.html"),),
            ("luo2019",), "none stated", note="the address is a page; the file is handed out on request"),
    _idx("mnist", 60_000, _MNIST, "train", "mnist-", ("wan2018", "wan2021"),
         (("f68b3c2dcbeaaa9fbdd348bbdeb94873",
           "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"), ("d53e105ee54ea40749a09fcbcd1e9432",
           "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5")), licence="CC BY-SA 3.0",
         positive=tuple(map(float, range(5))), note="as two classes: digits 0 to 4 against 5 to 9"),
    _idx("mnist.t", 10_000, _MNIST, "t10k", "mnist-", ("wan2018", "wan2021"),
         (("9fb629c4189551a2d022fa330f9573f3",
           "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"), ("ec29112dd5afa0611ce80d1b7f02629c",
           "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")), licence="CC BY-SA 3.0",
         positive=tuple(map(float, range(5)))),
    _idx("fashion", 60_000, _FASHION, "train", "fashion-", (),
         (("8d4fb7e6c68d591d4c3dfef9ec88bf0d",
           "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"), ("25c81989df183df01b3e8a0aad5dffbe",
           "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9")), licence="MIT",
         positive=tuple(map(float, range(5))), note="where SVHN is absent"),
    _idx("fashion.t", 10_000, _FASHION, "t10k", "fashion-", (),
         (("bef4ecab320f06d8554ea6380940ec79",
           "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"), ("bb300cfdad3c16e7a12a480ee83cd310",
           "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34")), licence="MIT",
         positive=tuple(map(float, range(5)))),
    DataSet("gisette-like", 6_000, 5_000, "made", (), (), "as mnist",
            note="stands in for gisette: MNIST's 4 against 9, pixels, products of pixels and as many noise probes"),
    DataSet("gisette-like.t", 1_000, 5_000, "made", (), (), "as mnist"),
    DataSet("cifar10", 60_000, 3_072, "images",
            (File("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", ("cifar10-data_batch_1.webp",),
                  "md5:c58f30108f718f92721af3b95e74349a"),), ("wan2018", "wan2021"), "none stated"),
    DataSet("cifar100", 60_000, 3_072, "images",
            (File("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", (),
                  "md5:eb9058c3a382ffc7106e4002c42a8d85"),), ("wan2021",), "none stated"),
    DataSet("svhn", 73_257, 3_072, "images",
            (File("http://ufldl.stanford.edu/housenumbers/train_32x32.mat", (), "md5:e26dedcc434d2e4c54c9b2d4a06d8373"),
             File("http://ufldl.stanford.edu/housenumbers/test_32x32.mat", (), "md5:eb5a983be6a315427106f1b164d9cef3")),
            ("wan2018", "wan2021"), "for non-commercial use only"),
)  # fmt: skip

CATALOGUE: Mapping[str, DataSet] = {entry.name: entry for entry in _SETS}
"""Every set by name. A name that ends in ``.t`` is the test part of the set before the dot."""

_COMPRESSED = ("", ".xz", ".gz", ".bz2")


def entry(name: str) -> DataSet:
    """The set's entry, or a complaint with a hint.

    >>> entry("a9a").features
    123
    """
    if name not in CATALOGUE:
        from difflib import get_close_matches

        close = get_close_matches(name, CATALOGUE, n=1)
        hint = f"did you mean {close[0]}?" if close else "'onsketch data list' shows them."
        raise OptionError(f"there is no data set {name!r}; {hint}")
    return CATALOGUE[name]


def cache() -> Path:
    """Where downloads go: ``$XDG_CACHE_HOME/onsketch``, or ``~/.cache/onsketch``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onsketch"


def folders(given: Path | None = None) -> list[Path]:
    """Where sets are looked for, in order."""
    named = os.environ.get("ONSKETCH_DATA")
    return [*([given] if given is not None else []), *([Path(named)] if named else []), cache()]


def found(file: File, given: Path | None = None) -> Path | None:
    """The file's copy, if there is one."""
    for folder in folders(given):
        for name in (file.name, *file.also):
            for ending in _COMPRESSED:
                path = folder / f"{name}{ending}"
                if path.is_file():
                    return path
    return None


def is_at_hand(name: str, given: Path | None = None) -> bool:
    """Whether every file of the set is there."""
    if name in ("gisette-like", "gisette-like.t"):
        return is_at_hand("mnist", given)
    known = entry_or_none(name)
    return known is not None and bool(known.files) and all(found(file, given) for file in known.files)


def entry_or_none(name: str) -> DataSet | None:
    """The set's entry, if it has one."""
    return CATALOGUE.get(name)


def load(name: str, given: Path | None = None) -> tuple[Any, NDArray[np.float64]]:
    """All rows of a set (CSR or dense), and its labels as −1 and +1.

    The sets are small enough to be held in memory; for larger files there is :func:`onsketch.data.stream`.
    """
    return _loaded(name, tuple(folders(given)), given)


@lru_cache(maxsize=6)
def _loaded(name: str, _where: tuple[Path, ...], given: Path | None) -> tuple[Any, NDArray[np.float64]]:
    from onsketch.data import sets

    known = entry(name)
    if known.form == "made":
        images, digits = sets.digits(list(_paths(entry("mnist"), given)))
        return sets.gisette_like(images, digits, test=name.endswith(".t"))
    if known.form == "images":
        raise InputError(f"{name}: pictures for networks; see onsketch.torch.")
    return sets.read(known, list(_paths(known, given)))


def _paths(known: DataSet, given: Path | None) -> Iterator[Path]:
    for file in known.files:
        path = found(file, given)
        if path is None:
            places = ", ".join(str(folder) for folder in folders(given))
            raise InputError(
                f"{known.name}: {file.name} is in none of {places}. Get it with 'onsketch data get {known.name}', or "
                "say where it is with --data (or the environment variable ONSKETCH_DATA)."
            )
        yield path
