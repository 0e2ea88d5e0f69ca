"""The Helm chart, as far as it can be read without Helm and a cluster."""

from __future__ import annotations

import json
import re
from functools import reduce
from pathlib import Path

import jsonschema
import pytest
import yaml

from app import __version__
from app.settings import Settings

CHART = Path(__file__).parent.parent.parent / "deploy" / "helm" / "postbayes"
TEMPLATES = sorted((CHART / "templates").glob("*.yaml"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
ACTION = re.compile(r"\{\{.*?\}\}")


def check(**changed):
    """Validate the values, with some of them changed."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate({**VALUES, **changed}, SCHEMA, jsonschema.Draft7Validator)


def test_the_values_are_those_of_the_schema():
    """Each of them, so that a misspelt one is refused."""
    check()

    assert VALUES.keys() == SCHEMA["properties"].keys() - {"global"}


@pytest.mark.parametrize(
    "changed",
    [
        {"replicas": 2},
        {"replica": 1},
        {"settings": {"POSTBAYES_PORT": 1}},
        {"service": {"port": 0}},
        {"persistence": {"size": "much"}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_values_that_cannot_work_are_refused(changed):
    """Such as two pods with one SQLite."""
    with pytest.raises(jsonschema.ValidationError):
        check(**changed)


def test_with_postgresql_there_may_be_several():
    """Which the Secret with its URL says."""
    check(replicas=3, database={"existingSecret": "postbayes", "key": "url"})


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_asks_for_values_that_there_are(path):
    """Helm takes one that is not there for nothing, and says nothing."""
    asked = re.findall(r"\.Values((?:\.\w+)+)", path.read_text())

    for value in asked:
        reduce(lambda found, name: found[name], value.split(".")[1:], VALUES)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_is_yaml_around_its_actions(path):
    """Of an object of Kubernetes; each action that begins is ended."""
    text = path.read_text()
    begun = re.findall(r"\{\{-? (if|with|range|define)\b", text)
    ended = re.findall(r"\{\{-? end\b", text)
    lines = [
        ACTION.sub("x", line)
        for line in text.splitlines()
        if not re.fullmatch(r"\s*\{\{-?.*\}\}", line)
    ]
    found = yaml.safe_load(re.sub(r'"x(.*)x"', "x", "\n".join(lines)))

    assert len(begun) == len(ended)
    assert {"apiVersion", "kind", "metadata", "spec"} == found.keys()
    assert path.stem == found["kind"].lower()


def test_the_chart_is_of_this_version_and_its_settings_are_ours():
    """What the templates set are settings of the service."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    text = (CHART / "templates" / "statefulset.yaml").read_text()
    named = re.findall(r"name: POSTBAYES_([A-Z_]+)\n", text)

    assert __version__ == chart["appVersion"]
    assert named
    assert {name.lower() for name in named} <= Settings.model_fields.keys()
