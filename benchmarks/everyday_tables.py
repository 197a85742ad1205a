"""Tables as people have them, with ``--label`` alone, next to a pipeline made by hand with scikit-learn.

    python benchmarks/everyday_tables.py TABLE.csv=LABEL ... [--rows 5000] [--seed 0]

A table is shuffled and cut to ``--rows``. Four fifths are learned and the others predicted, by ``onsketch train --label
LABEL`` and ``onsketch predict``. The pipeline encodes words one-hot and texts by TF-IDF, scales numbers, fills gaps by
the mean, and fits ridge or logistic regression; dates are numbers of days. Shown are R² for labels that are numbers,
and errors for words, on the rows predicted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

PROGRAM = [sys.executable, "-c", "from onsketch.cli import main; main()"]


def pipeline(frame: pd.DataFrame, classes: bool) -> Pipeline:
    """Return the pipeline by hand for the columns of a frame."""
    words = [name for name in frame if not is_numeric_dtype(frame[name])]
    texts = [name for name in words if frame[name].str.split().str.len().mean() > 3]
    names = [name for name in words if name not in texts]
    numbers = [name for name in frame if name not in words]
    steps: list[Any] = [(name, TfidfVectorizer(), name) for name in texts]
    steps += [("words", OneHotEncoder(handle_unknown="ignore"), names)] if names else []
    steps += [("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers)] if numbers else []
    model = LogisticRegression(max_iter=1000) if classes else RidgeCV(np.logspace(-3, 3, 7))
    return make_pipeline(ColumnTransformer(steps), model)


def dated(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with dates as numbers of days."""
    found = frame.copy()
    for name in [name for name in found if not is_numeric_dtype(found[name])]:
        if found[name].dropna().str.fullmatch(r"\d{4}-\d\d-\d\d.*").all():
            found[name] = pd.to_datetime(found[name], utc=True).astype("int64") / 8.64e13
    return found


def ours(train: pd.DataFrame, test: pd.DataFrame, label: str) -> pd.Series:
    """Predict by the program, which is given nothing but the label's name."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{name}.csv" for name in ("train", "test", "predictions")]
        train.to_csv(files[0], index=False)
        test.drop(columns=label).to_csv(files[1], index=False)
        model = f"{folder}/model"
        for call in (
            ["train", files[0], "--label", label, "--save", model, "--quiet"],
            ["predict", model, files[1], "-o", files[2]],
        ):
            subprocess.run([*PROGRAM, *call], check=True, stdout=subprocess.DEVNULL, env=os.environ)
        return pd.read_csv(files[2])["prediction"]


def score(wanted: pd.Series, found: Any, classes: bool) -> str:
    """Return the errors or R² in words."""
    if classes:
        return f"{np.mean(wanted.astype(str).to_numpy() != np.asarray(found).astype(str)):.2%} errors"
    return f"R² {r2_score(wanted, np.asarray(found, dtype=float)):.4f}"


def main() -> None:
    """Compare all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", metavar="TABLE=LABEL")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name, _, label in (table.rpartition("=") for table in given.tables):
        frame = pd.read_csv(name)
        classes = not is_numeric_dtype(frame[label])
        frame = frame[frame[label].notna()].sample(frac=1.0, random_state=given.seed)[: given.rows]
        cut = len(frame) * 4 // 5
        train, test = frame[:cut], frame[cut:]
        by_hand = pipeline(dated(train.drop(columns=label)), classes)
        by_hand.fit(dated(train.drop(columns=label)), train[label])
        said = by_hand.predict(dated(test.drop(columns=label)))
        figures = score(test[label], ours(train, test, label), classes), score(test[label], said, classes)
        print(f"{Path(name).name}: {figures[0]}; by hand {figures[1]}", flush=True)


if __name__ == "__main__":
    main()
