"""The page on kernel methods names every method, and only options that exist."""

import re

from checkout import ROOT
from onsketch.learners.methods import METHODS

PAGE = ROOT.joinpath("docs", "howto", "kernel_methods.md").read_text(encoding="utf-8")


def test_every_method_and_option_named_exists():
    options = set(re.findall(r"^\| `(\w+)`", PAGE, flags=re.MULTILINE)) - {"kons"}
    kernel = [method for method in METHODS.values() if method.kernel]
    assert options <= frozenset().union(*(method.concerns for method in kernel))
    assert set(re.findall(r"`((?:[\w]+-)*(?:kons|kernel-ogd))`", PAGE)) == {method.name for method in kernel}
