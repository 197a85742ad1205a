"""Sets of pictures. SHA-256 and length are of the files as published, as torchvision, Keras and others state them;
``content`` was computed from copies. MNIST's licence is that stated by TensorFlow.
"""

from __future__ import annotations

from typing import Any

from onsketch.data.catalogue.record import DataSet, File

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"


def _idx(
    name: str, rows: int, base: str, stem: str, prefix: str, papers: tuple[str, ...],
    sums: tuple[tuple[str, int, str], tuple[str, int, str]], **more: Any,
) -> DataSet:  # fmt: skip
    parts = (f"{stem}-images-idx3-ubyte.gz", f"{stem}-labels-idx1-ubyte.gz")
    files = tuple(
        File(base + part, (prefix + part,), f"sha256:{published}", content, size)
        for part, (published, size, content) in zip(parts, sums, strict=True)
    )
    return DataSet(name, rows, 784, "idx", files, papers, **more)


PICTURES = (
    _idx("mnist", 60_000, _MNIST, "train", "mnist-", ("wan2018", "wan2021"),
         (("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9_912_422,
           "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
          ("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28_881,
           "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5")), licence="CC BY-SA 3.0",
         positive=tuple(map(float, range(5))), note="as two classes: digits 0 to 4 against 5 to 9"),
    _idx("mnist.t", 10_000, _MNIST, "t10k", "mnist-", ("wan2018", "wan2021"),
         (("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1_648_877,
           "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
          ("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4_542,
           "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")), licence="CC BY-SA 3.0",
         positive=tuple(map(float, range(5)))),
    _idx("fashion", 60_000, _FASHION, "train", "fashion-", (),
         (("3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26_421_880,
           "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
          ("a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29_515,
           "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9")), licence="MIT",
         positive=tuple(map(float, range(5))), note="where SVHN is absent"),
    _idx("fashion.t", 10_000, _FASHION, "t10k", "fashion-", (),
         (("346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4_422_102,
           "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
          ("67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5_148,
           "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34")), licence="MIT",
         positive=tuple(map(float, range(5)))),
    DataSet("gisette-like", 6_000, 5_000, "made", (), (), "as mnist",
            note="stands in for gisette: MNIST's 4 against 9, pixels, products of pixels and as many noise probes"),
    DataSet("gisette-like.t", 1_000, 5_000, "made", (), (), "as mnist"),
    DataSet("cifar10", 60_000, 3_072, "images",
            (File("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", ("cifar10-data_batch_1.webp",),
                  "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce", size=170_498_071),),
            ("wan2018", "wan2021"), "none stated"),
    DataSet("cifar100", 60_000, 3_072, "images",
            (File("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", (),
                  "sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7", size=169_001_437),),
            ("wan2021",), "none stated"),
    DataSet("svhn", 73_257, 3_072, "images",
            (File("https://ufldl.stanford.edu/housenumbers/train_32x32.mat", (),
                  "sha256:435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8", size=182_040_794),
             File("https://ufldl.stanford.edu/housenumbers/test_32x32.mat", (),
                  "sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b", size=64_275_384)),
            ("wan2018", "wan2021"), "non-commercial use, says its page (not checked here)"),
)  # fmt: skip
