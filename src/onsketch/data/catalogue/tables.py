"""Numeric sets: LIBSVM's collection, UCI's, and others that the papers use or that stand in for absent ones.

LIBSVM and UCI publish no checksums of these files; ``digest`` is that of the rows of a copy whose rows and features
were counted. ``published`` is SHA-256 and length of the file as it is at the address, where others who fetched it from
there state it. It was seen to be right for a9a, a9a.t and mushrooms, and of ijcnn1 for the text within the archive
(16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f): copies, written as LIBSVM does, have it.
No licence is stated with those copies; UCI's page of a set says what it is under today.
"""

from __future__ import annotations

from typing import Any

from onsketch.data.catalogue.record import DataSet, File

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


def _libsvm(
    name: str, rows: int, features: int, path: str, *papers: str, also: tuple[str, ...] = (),
    published: tuple[str, int | None] = ("", None), **more: Any,
) -> DataSet:  # fmt: skip
    file = File(_LIBSVM + path, (name, *also), f"sha256:{published[0]}" if published[0] else None, size=published[1])
    return DataSet(name, rows, features, "libsvm", (file,), papers, **more)


TABLES = (
    _libsvm("a9a", 32_561, 123, "binary/a9a", "luo2016", "luo2019",
            digest="6e5185cecd7829df8cf37437adece2edbe58a4102dc0e95aeb3b275359df8a6b",
            published=("f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906", 2_329_875)),
    _libsvm("a9a.t", 16_281, 123, "binary/a9a.t", "luo2016",
            digest="666a35bdca57674e06e552c42dd27e18698b91a7372739c75c08bf6f485160a1",
            published=("1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9", 1_164_628)),
    _libsvm("acoustic", 78_823, 50, "multiclass/vehicle/acoustic.bz2", "luo2016", positive=(3.0,)),
    _libsvm("australian", 690, 14, "binary/australian", "luo2016",
            digest="985ffdb7004c28ccc0baf7cbc29e712d587729f3b62b5ba1e73fc883e8f46b90"),
    _libsvm("breast-cancer", 683, 10, "binary/breast-cancer", "luo2016", positive=(4.0,),
            digest="384ff3ceedb1cfac53d27d663b445b25f5e0f22675a0cbc2faad49b1ae24c8cc"),
    _libsvm("cod-rna", 59_535, 8, "binary/cod-rna", "luo2016", also=("cod-rna.30k",), partial=True),
    _libsvm("diabetes", 768, 8, "binary/diabetes", "luo2016",
            digest="588bc348b970d011d0e50cc47fb7e87fc018f30d7e1a05ef06bfbedb10c76227"),
    _libsvm("epsilon", 400_000, 2_000, "binary/epsilon_normalized.bz2", "wan2021"),
    _libsvm("epsilon.t", 100_000, 2_000, "binary/epsilon_normalized.t.bz2", "wan2021"),
    _libsvm("german.numer", 1_000, 24, "binary/german.numer", "luo2016",
            digest="2db22abbf665805daf38724897f2b600063737bd5749d3fbdcb0e6fd8ef1ff8f"),
    _libsvm("gisette", 6_000, 5_000, "binary/gisette_scale.bz2", "luo2016", "luo2019", "wan2018", "wan2021"),
    _libsvm("gisette.t", 1_000, 5_000, "binary/gisette_scale.t.bz2", "wan2018", "wan2021"),
    _libsvm("heart", 270, 13, "binary/heart", "luo2016",
            digest="0d049567ea82d578219bfe0532a65ebe45b42f7803f8bfaf2b17a057a79a6bd4"),
    _libsvm("ijcnn1", 49_990, 22, "binary/ijcnn1.bz2", "luo2016",
            digest="72f78363e894a0a6cb189eb636cc015a6d75033ece6e88994627463deb21fdb3"),
    _libsvm("letter", 15_000, 16, "multiclass/letter.scale", "luo2016", also=("letter.scale",),
            positive=tuple(map(float, range(1, 14))), note="letters A to M against N to Z",
            digest="a8cd4e58a0b67490e54def89b5681923664ecd1278fe7fb65f52f6ec6f37a59f"),
    _libsvm("madelon", 2_000, 500, "binary/madelon", note="not of the papers: hard noise, to test against",
            digest="99b71da489f8580001a3a44f993b8d99f73cfbf8f83a3553974205106cd3ffd1"),
    _libsvm("mushrooms", 8_124, 112, "binary/mushrooms", "luo2016", positive=(1.0,),
            digest="033a8184cea5e6950b67d2bc3ed6d9b082a64ab4244542228285616fddb7652f",
            published=("f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538", 879_712)),
    _libsvm("news20", 15_935, 62_061, "multiclass/news20.bz2", "luo2016", positive=tuple(map(float, range(1, 11))),
            note="20 newsgroups, the first ten against the others",
            digest="6bb0582cf4214debcff6715d6d32eb67540e8286e2096e9422f5e6815e952405"),
    _libsvm("phishing", 11_055, 68, "binary/phishing", note="not of the papers", also=("phishing.8404",), partial=True),
    _libsvm("rcv1", 20_242, 47_236, "binary/rcv1_train.binary.bz2", "luo2016", "luo2019", also=("rcv1_train.binary",),
            published=("", 13_730_096)),
    _libsvm("real-sim", 72_309, 20_958, "binary/real-sim.bz2", "luo2016", "luo2019"),
    _libsvm("skin", 245_057, 3, "binary/skin_nonskin", note="not of the papers", also=("skin_nonskin.30k",),
            positive=(1.0,), partial=True),
    _libsvm("splice", 1_000, 60, "binary/splice", "luo2016",
            digest="52aaf2019d1b8d540034635f196ef6936a52ac8cea917c5716052a30abcc900f"),
    _libsvm("svmguide1", 3_089, 4, "binary/svmguide1", note="not of the papers",
            digest="c56c9c6cc8f29049f4588e915471e9a6f7562cb51e07fcca84b2f88151b9d7d2"),
    _libsvm("w8a", 49_749, 300, "binary/w8a", "luo2016",
            published=("6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2", None)),
    _libsvm("w1a", 2_477, 300, "binary/w1a", "luo2016"),
    DataSet("census", 199_523, 401, "csv",
            (File("https://archive.ics.uci.edu/static/public/117/census+income+kdd.zip"),), ("luo2016",),
            note="to be turned into 401 binary features by hand; not loaded here"),
    DataSet("covtype", 581_012, 54, "csv",
            (File(_UCI + "covtype/covtype.data.gz", ("covtype.csv",),
                  "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771"),),
            ("luo2016",), digest="2bfbab6ffbf8819aed5b2d2fd4e8feb1a82ce933dfb1ea19d84a5ce995fa3d23",
            positive=("2",), note="class 2 against the rest, columns scaled to 0..1"),
    DataSet("farm-ads", 4_143, 54_877, "libsvm",
            (File(_UCI + "00218/farm-ads-vect", ("farm-ads",)),), ("luo2019",),
            digest="4b066dd229a14b2958e52e6981c24ac2ca0ebc108639449b8bc32e55c0ba9b7b"),
    DataSet("hiva", 3_845, 1_617, "libsvm",
            (File("https://www.causality.inf.ethz.ch/al_data/HIVA.html", ("hiva",)),), (),
            digest="1afcd605a3526550e0a970b4f60aef6d5a8ca9a0bffebaa1dadb7d1e531c5318",
            note="of sido0's domain (drug activity), where sido0 is absent; the address is a page"),
    DataSet("ionosphere", 351, 34, "csv",
            (File(_UCI + "ionosphere/ionosphere.data", ("mlbench_Ionosphere.csv",),
                  "sha256:46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd"),),
            ("luo2016",), digest="1d91e1f9def6a9fd72e03ceb21e588d2fb81490e82775fa926ff4046280890ec",
            positive=("good", "g"), label="Class"),
    DataSet("reuters", 7_770, 8_315, "libsvm",
            (File("https://github.com/X-DataInitiative/tick-datasets/raw/master/binary/reuters/reuters.trn.bz2",
                  ("reuters.trn",)),), (),
            digest="9644620b22efcd05410c4c179b4382d98f44030d63d7123499d3d2be52a37fff",
            note="Reuters-21578 money-fx: sparse text, where rcv1 and real-sim are absent"),
    DataSet("sido0", 12_678, 4_932, "libsvm", (File("https://www.causality.inf.ethz.ch/data/SIDO.html"),),
            ("luo2019",), note="the address is a page; the file is handed out on request"),
)  # fmt: skip
