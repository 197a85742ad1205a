"""A service with a client: predictions now, labels when they come.

`onsketch serve` learns while it answers. This script starts a service on a free port of this machine and plays a
client: it asks for a prediction under an id, and sends the label of that row some rows later. Labels that have been
acknowledged are in the log on the disk, so that a crash loses none.
"""

import json
import random
import socket
import subprocess
import time
import urllib.request

import matplotlib.pyplot as plt

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
command = ["onsketch", "serve", "--learner", "auto", "--task", "binary", "--log", "clicks.log", "--port", str(port)]
service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def call(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


try:
    for _ in range(600):  # wait until the service takes rows
        try:
            call("/status")
            break
        except OSError:
            time.sleep(0.1)

    rng = random.Random(0)
    waiting, wrong = [], []
    for k in range(1_200):
        features = {"age": rng.randint(18, 80), "device": rng.choice(["phone", "desk"]), "visits": rng.randint(1, 9)}
        score = 0.05 * (features["age"] - 45) + (features["device"] == "phone") + 0.2 * features["visits"] - 1.5
        clicked = score + rng.gauss(0, 0.7) > 0
        answer = call("/predict", {"features": features, "id": str(k)})
        wrong.append(answer["prediction"] != int(clicked))
        waiting.append({"id": str(k), "label": int(clicked)})
        if len(waiting) > 20:  # the label of a row comes twenty rows later
            call("/label", waiting.pop(0))
    status = call("/status")
    print(f"labels learned: {status['rows']}")
    first, last = sum(wrong[:200]) / 200, sum(wrong[-600:]) / 600
    print(f"errors: {first:.0%} of the first 200 predictions, {last:.0%} of the last 600")
finally:
    service.terminate()
    service.wait(timeout=30)

figure, axes = plt.subplots(figsize=(6, 4))
axes.plot([sum(wrong[max(0, k - 150) : k]) / min(k, 150) for k in range(1, len(wrong) + 1)])
axes.set(xlabel="prediction", ylabel="errors over 150 predictions", title="A service that learns")
figure.savefig("service.svg", bbox_inches="tight")
