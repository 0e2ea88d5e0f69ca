"""The Helm chart, made by Helm; no cluster takes it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
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
POSTGRESQL = {"replicas": 3, "database": {"existingSecret": "postbayes", "key": "url"}}


def check(**changed):
    """Validate the values, with some of them changed."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate({**VALUES, **changed}, SCHEMA, jsonschema.Draft7Validator)


def test_the_values_are_those_of_the_schema():
    """Each value is in the schema, so a misspelt one is refused."""
    check()

    assert VALUES.keys() == SCHEMA["properties"].keys() - {"global"}


@pytest.mark.parametrize(
    "changed",
    [
        {"replicas": 2},
        {"replica": 1},
        {"settings": {"POSTBAYES_PORT": 1}},
        {"settings": {"port": 9000}},
        {"service": {"port": 0}},
        {"persistence": {"size": "much"}},
        {**POSTGRESQL, "settings": {"store_words": False}},
    ],
    ids=str,
)
def test_values_that_cannot_work_are_refused(changed):
    """Two pods with one SQLite database, for example, are refused."""
    with pytest.raises(jsonschema.ValidationError):
        check(**changed)


def test_with_postgresql_there_may_be_several():
    """The Secret with the URL of PostgreSQL allows several pods, with a common key."""
    check(**POSTGRESQL)
    check(**POSTGRESQL, settings={"store_words": False, "key_file": "/run/secrets/k"})
    check(settings={"store_words": False})


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_asks_for_values_that_there_are(path):
    """Helm silently treats a missing value as empty."""
    asked = re.findall(r"\.Values((?:\.\w+)+)", path.read_text())

    for value in asked:
        reduce(lambda found, name: found[name], value.split(".")[1:], VALUES)


def helm(*arguments):
    """Run Helm on the chart, and return what it did."""
    program = Path(sys.executable).with_name("helm")
    if not program.exists():
        pytest.skip("Helm has no wheel for this machine")
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, check=False
    )


def test_helm_finds_nothing_wrong():
    """`helm lint` passes, also with every part of the chart enabled."""
    done = helm("lint", "--strict", CHART, "--set", "serviceMonitor.enabled=true")

    assert 0 == done.returncode, done.stdout


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        ([], ["NetworkPolicy", "Service", "StatefulSet"]),
        (
            ["serviceMonitor.enabled=true", "apiKey.existingSecret=scrape"],
            ["NetworkPolicy", "Service", "StatefulSet", "ServiceMonitor"],
        ),
        (
            ["networkPolicy.enabled=false", "service.milterPort=11332"],
            ["Service", "StatefulSet"],
        ),
        (
            ["database.existingSecret=postbayes", "replicas=3"],
            ["NetworkPolicy", "Service", "StatefulSet"],
        ),
    ],
    ids=["plain", "monitored", "milter", "postgresql"],
)
def test_helm_makes_the_objects(changed, kinds):
    """The objects have the given values, and names that are unique in each kind."""
    options = [option for each in changed for option in ("--set", each)]
    done = helm("template", "mail", CHART, *options)
    assert 0 == done.returncode, done.stderr
    made = [each for each in yaml.safe_load_all(done.stdout) if each]
    (pods,) = [each["spec"] for each in made if each["kind"] == "StatefulSet"]
    environment = {
        each["name"]: each for each in pods["template"]["spec"]["containers"][0]["env"]
    }

    assert sorted(kinds) == sorted(each["kind"] for each in made)
    assert "127.0.0.0/8" in environment["POSTBAYES_KEYLESS_FROM"]["value"]
    assert ("POSTBAYES_DATABASE_URL" in environment) == ("replicas=3" in changed)
    assert ("POSTBAYES_MILTER" in environment) == (len(changed) > 1 and len(kinds) < 3)


def test_settings_reach_the_service_as_they_were_written(tmp_path):
    """A large number keeps its digits, and a host name joins those of the Service."""
    values = tmp_path / "values.yaml"
    values.write_text(
        "settings: {max_request_bytes: 10000000, ham_cost: 9.5, store_words: false,\n"
        "           host_names: filter.example.org}\n"
    )
    done = helm("template", "mail", CHART, "--values", values)
    pods = next(
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all(done.stdout)
        if each["kind"] == "StatefulSet"
    )
    entries = [(each["name"], each["value"]) for each in pods["containers"][0]["env"]]
    environment = dict(entries)

    assert len(environment) == len(entries)
    assert "10000000" == environment["POSTBAYES_MAX_REQUEST_BYTES"]
    assert "9.5" == environment["POSTBAYES_HAM_COST"]
    assert "false" == environment["POSTBAYES_STORE_WORDS"]
    assert ["mail.default", "filter.example.org"] == [
        environment["POSTBAYES_HOST_NAMES"].split(",")[place] for place in (0, -1)
    ]


def test_the_keys_of_a_secret_become_files():
    """The service may read them where the settings name them, and nobody else may."""
    done = helm(
        *("template", "mail", CHART, "--set", "files.existingSecret=own"),
        *("--set", "settings.webhook_secret_file=/run/secrets/webhook"),
    )
    pods = next(
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all(done.stdout)
        if each["kind"] == "StatefulSet"
    )
    (volume,) = [each for each in pods["volumes"] if "secret" in each]
    mounts = {each["name"]: each for each in pods["containers"][0]["volumeMounts"]}

    assert {"secretName": "own", "defaultMode": 0o440} == volume["secret"]
    assert "/run/secrets" == mounts[volume["name"]]["mountPath"]
    assert mounts[volume["name"]]["readOnly"]


def test_services_of_the_namespace_set_no_variables():
    """A Service named `postbayes` would set POSTBAYES_PORT to `tcp://…` in the pods."""
    text = (CHART / "templates" / "statefulset.yaml").read_text()

    assert "\n      enableServiceLinks: false\n" in text


def test_helm_refuses_values_that_cannot_work():
    """The schema refuses such values before anything is rendered."""
    done = helm("template", "mail", CHART, "--set", "replicas=2")

    assert 0 != done.returncode
    assert "replicas" in done.stderr


def test_the_chart_is_of_this_version_and_its_settings_are_ours():
    """Every variable that the templates set is a setting of the service."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    text = (CHART / "templates" / "statefulset.yaml").read_text()
    named = re.findall(r"name: POSTBAYES_([A-Z_]+)\n", text)

    assert __version__ == chart["appVersion"]
    assert named
    assert {name.lower() for name in named} <= Settings.model_fields.keys()
