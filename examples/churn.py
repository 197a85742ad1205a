"""Churn: from a CSV file to probabilities.

A table of customers has words, gaps, decimals and a label that is a word. `onsketch train` reads it in one pass and
needs nothing but the name of the label. This script does the same in Python: it writes a table, trains, and judges the
probabilities for customers that the model has not seen.
"""

import csv
import random
from pathlib import Path


def write_customers(path: str, n: int, seed: int) -> None:
    """Write n customers whose churn depends on contract, tenure, price and complaints."""
    rng = random.Random(seed)
    with Path(path).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["customer", "contract", "months", "monthly_charge", "complaints", "churned"])
        for k in range(n):
            contract = rng.choice(["monthly", "monthly", "yearly"])
            months, charge, complaints = rng.randint(1, 72), rng.uniform(15, 120), rng.choice([0, 0, 0, 1, 2])
            score = 1.6 * (contract == "monthly") - 0.04 * months + 0.02 * charge + 0.8 * complaints - 1.7
            churned = "yes" if score + rng.gauss(0, 1) > 0 else "no"
            shown = "" if rng.random() < 0.1 else f"{charge:.2f}"  # one charge in ten is missing
            table.writerow([f"c{k:05}", contract, months, shown, complaints, churned])


if __name__ == "__main__":
    import subprocess

    import matplotlib.pyplot as plt
    import numpy as np

    write_customers("customers.csv", 5_000, seed=1)
    write_customers("tomorrow.csv", 2_000, seed=2)

    train = ["onsketch", "train", "customers.csv", "--label", "churned", "--save", "churn.model"]
    output = subprocess.run(train, check=True, capture_output=True, text=True).stdout
    print(output[output.index("average loss") : output.index("features ")])
    predict = ["onsketch", "predict", "churn.model", "tomorrow.csv", "--kind", "probability", "-o", "probabilities.txt"]
    subprocess.run(predict, check=True, stderr=subprocess.DEVNULL)  # it judges the predictions there

    probabilities = np.loadtxt("probabilities.txt")
    with open("tomorrow.csv", newline="") as file:
        churned = np.array([row["churned"] == "yes" for row in csv.DictReader(file)])
    print(f"errors on new customers: {np.mean((probabilities > 0.5) != churned):.1%}")
    print(f"errors of the constant answer: {min(churned.mean(), 1 - churned.mean()):.1%}")

    # Calibration: of the customers with a probability of about p, a share of about p churns.
    edges = np.linspace(0, 1, 11)
    groups = np.digitize(probabilities, edges[1:-1])
    means = [(probabilities[groups == g].mean(), churned[groups == g].mean()) for g in range(10) if (groups == g).any()]
    figure, axes = plt.subplots(figsize=(5, 4))
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    axes.plot(*zip(*means, strict=True), marker="o")
    axes.set(xlabel="predicted probability", ylabel="share that churned", title="Calibration on new customers")
    figure.savefig("churn.svg", bbox_inches="tight")
