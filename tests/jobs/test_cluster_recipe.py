"""The deployment recipe has only fields that KubeRay knows, and the page only commands that the program knows."""

from __future__ import annotations

import re
import shlex
from typing import Any

import click
import pytest

from checkout import ROOT
from onsketch.cli import app

yaml = pytest.importorskip("yaml", reason="PyYAML comes with Ray")

PAGE = ROOT / "docs" / "howto" / "cluster.md"

CONTAINER = {"name": str, "image": str, "resources": {"limits": {"cpu": str, "memory": str}}}
POD = {"spec": {"containers": [CONTAINER]}}
RAY_JOB: dict[str, Any] = {
    "apiVersion": str,
    "kind": str,
    "metadata": {"name": str},
    "spec": {
        "entrypoint": str,
        "backoffLimit": int,
        "shutdownAfterJobFinishes": bool,
        "rayClusterSpec": {
            "rayVersion": str,
            "headGroupSpec": {"rayStartParams": {"num-cpus": str}, "template": POD},
            "workerGroupSpecs": [
                {
                    "groupName": str,
                    "replicas": int,
                    "minReplicas": int,
                    "maxReplicas": int,
                    "rayStartParams": {},
                    "template": POD,
                }
            ],
        },
    },
}
"""KubeRay's ray.io/v1: the fields used, with their types (quantities and Ray's parameters are texts)."""


def check(value: Any, shape: Any, place: str) -> None:
    if isinstance(shape, dict):
        assert isinstance(value, dict), place
        assert value.keys() <= shape.keys(), f"{place}: {value.keys() - shape.keys()}"
        for name, item in value.items():
            check(item, shape[name], f"{place}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list), place
        for item in value:
            check(item, shape[0], place)
    else:
        assert type(value) is shape, f"{place}: {value!r}"


def recipe() -> Any:
    (text,) = re.findall(r"```yaml\n(apiVersion.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return yaml.safe_load(text)


def test_the_recipe_has_the_fields_of_kuberay() -> None:
    job = recipe()
    check(job, RAY_JOB, "job")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    group = job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_the_commands_of_the_page_are_understood() -> None:
    commands = re.findall(r"^onsketch ((?:.*\\\n)*.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    commands += [recipe()["spec"]["entrypoint"].removeprefix("onsketch ")]
    assert len(commands) >= 4
    parent = click.Context(app)
    for command in commands:
        name, *arguments = shlex.split(command)
        known = app.get_command(parent, name)
        assert known is not None
        context = known.make_context(name, arguments)
        assert context.params["cluster"]
        if name == "train":
            assert context.params["learner"] != "auto"
