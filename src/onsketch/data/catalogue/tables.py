"""Sets of numbers: LIBSVM's collection, UCI's, and others the papers use or that stand beside those that are absent.

LIBSVM and UCI publish no checksums of these files; ``content`` is that of a copy whose rows and features were counted.
``published`` is SHA-256 and length of the file as LIBSVM has it, where others who fetched it from there state it.
No licence is stated with those copies; UCI's page of a set says what it is under today.
"""

from __future__ import annotations

from typing import Any

from onsketch.data.catalogue.record import DataSet, File

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


def _libsvm(
    name: str, rows: int, features: int, path: str, *papers: str, also: tuple[str, ...] = (),
    content: str | None = None, published: tuple[str, int | None] = ("", None), **more: Any,
) -> DataSet:  # fmt: skip
    file = File(
        _LIBSVM + path, (name, *also), f"sha256:{published[0]}" if published[0] else None, content, published[1]
    )
    return DataSet(name, rows, features, "libsvm", (file,), papers, **more)


TABLES = (
    _libsvm("a9a", 32_561, 123, "binary/a9a", "luo2016", "luo2019",
            content="f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
            published=("f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906", 2_329_875)),
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
            content="f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538",
            published=("f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538", 879_712)),
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
    _libsvm("w8a", 49_749, 300, "binary/w8a", "luo2016",
            published=("6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2", None)),
    _libsvm("w1a", 2_477, 300, "binary/w1a", "luo2016"),
    DataSet("census", 199_523, 401, "csv",
            (File("https://archive.ics.uci.edu/static/public/117/census+income+kdd.zip"),), ("luo2016",),
            note="to be turned into 401 binary features by hand; not loaded here"),
    DataSet("covtype", 581_012, 54, "csv",
            (File(_UCI + "covtype/covtype.data.gz",
                  ("covtype.csv",), content="ea35ca6820fcbe0bdc6707e9ed31e11a9de84f07d88da73b511c737383c271a6"),),
            ("luo2016",), positive=("2",), note="class 2 against the rest, columns scaled to 0..1"),
    DataSet("farm-ads", 4_143, 54_877, "libsvm",
            (File(_UCI + "00218/farm-ads-vect", ("farm-ads",),
                  content="cee9de7aef56080a983cfddc22f2fae4dc9fea0804b3d033281c0b4288a4bb11"),),
            ("luo2019",)),
    DataSet("hiva", 3_845, 1_617, "libsvm",
            (File("https://www.causality.inf.ethz.ch/al_data/HIVA.html", ("hiva",),
                  content="0ea968621cc5393ffc742cc630379fbefe6c55e787cc99eb52dcfb1ae0f3241e"),),
            (), note="of sido0's domain (drug activity), where sido0 is absent; the address is a page"),
    DataSet("ionosphere", 351, 34, "csv",
            (File(_UCI + "ionosphere/ionosphere.data",
                  ("mlbench_Ionosphere.csv",),
                  content="9d1dac13ab7a4ba1a0aaafec6a96789b54c46b7526be204e35fec1933dd5f56f"),),
            ("luo2016",), positive=("good", "g"), label="Class"),
    DataSet("reuters", 7_770, 8_315, "libsvm",
            (File("https://github.com/X-DataInitiative/tick-datasets/raw/master/binary/reuters/reuters.trn.bz2",
                  ("reuters.trn",), content="caacd2baf041b15b51ab65c0ec2ac834a439a561fb6708427c1c002c10ac7215"),),
            (), note="Reuters-21578 money-fx: sparse text, where rcv1 and real-sim are absent"),
    DataSet("sido0", 12_678, 4_932, "libsvm", (File("https://www.causality.inf.ethz.ch/data/SIDO.html"),),
            ("luo2019",), note="the address is a page; the file is handed out on request"),
)  # fmt: skip
