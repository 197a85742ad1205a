"""Text with many classes: which part of Python does a docstring come from?

The texts are the docstrings of Python's standard library, so nothing is downloaded. Words are hashed to a sparse matrix
of 2^18 columns. `OnlineClassifier` learns the classes together by a softmax, in one pass and without any tuning. It is
compared with scikit-learn's `SGDClassifier`, also in one pass, at its default and at the best of five penalties.
"""

import ast
import random
import sysconfig
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

from onsketch.sklearn import OnlineClassifier

PACKAGES = ["asyncio", "ctypes", "email", "http", "importlib", "json", "logging", "multiprocessing", "unittest", "xml"]

# Every docstring of a package is one text.
texts, labels = [], []
for package in PACKAGES:
    for path in sorted((Path(sysconfig.get_path("stdlib")) / package).rglob("*.py")):
        if "test" in path.parts or path.name.startswith("test_"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="replace"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node)
                if text:
                    texts.append(text)
                    labels.append(package)
order = random.Random(0).sample(range(len(texts)), len(texts))
X = HashingVectorizer(n_features=2**18, alternate_sign=False).transform([texts[k] for k in order])
y = np.array(labels)[order]
split = len(y) * 3 // 4
print(f"{split} texts to learn, {len(y) - split} to test, {len(PACKAGES)} classes")
print(f"errors of the most frequent class: {np.mean(y[split:] != max(PACKAGES, key=list(y[:split]).count)):.0%}")

model = OnlineClassifier(random_state=0).fit(X[:split], y[:split])
probabilities = model.predict_proba(X[split:])
predicted = model.classes_[probabilities.argmax(axis=1)]
print(f"OnlineClassifier: {np.mean(predicted != y[split:]):.0%} errors")

errors = {}
for alpha in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
    peer = SGDClassifier(loss="log_loss", alpha=alpha, max_iter=1, tol=None, random_state=0).fit(X[:split], y[:split])
    errors[alpha] = 1 - peer.score(X[split:], y[split:])
print(f"SGDClassifier: {errors[1e-4]:.0%} errors by default, {min(errors.values()):.0%} with its best penalty")

# A confident answer should be right more often: errors among the most confident answers.
confidence = np.sort(probabilities.max(axis=1))[::-1]
wrong = (predicted != y[split:])[np.argsort(-probabilities.max(axis=1))]
share = np.arange(1, len(wrong) + 1) / len(wrong)
figure, axes = plt.subplots(figsize=(5, 4))
axes.plot(share, np.cumsum(wrong) / np.arange(1, len(wrong) + 1))
axes.set(xlabel="share of texts answered, most confident first", ylabel="errors", title="Confidence and errors")
figure.savefig("text_classes.svg", bbox_inches="tight")
