"""Sets of pictures. Checksums of published files are those torchvision lists; MNIST's licence is as TensorFlow says."""

from __future__ import annotations

from typing import Any

from onsketch.data.catalogue.record import DataSet, File

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


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


PICTURES = (
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
            ("wan2018", "wan2021"), "non-commercial use, says its page (not checked here)"),
)  # fmt: skip
