"""Monitoring: the dashboard and the alert rules ask for metrics that the service has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest

from app.doors.http.metrics import Collected
from app.services.metrics import Tally
from tests.support.application import taught_client
from tests.support.databases import sqlite_url
from tests.support.messages import SPAM
from tests.support.service import free_port

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "postbayes.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "postbayes.json"
# A metric, and the labels that are selected of it.
SELECTED = re.compile(r"\b((?:postbayes|process)_\w+|up\b)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\b(?:by|on|without|ignoring) *\(([^)]*)\)")
NAME = re.compile(r"(\w+) *=~?")
SHOWN = re.compile(r"\{\{ *(?:\$labels\.)?(\w+) *\}\}")
# Those that Prometheus adds to every series; `worker` is there with several processes.
ADDED = {"instance", "job", "worker"}
RAW = {"content-type": "message/rfc822"}


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """The labels of each series that a taught service has, by its name."""
    folder = tmp_path_factory.mktemp("monitored")
    # Nobody listens on the port of a site that is followed.
    nobody = f"berlin=http://127.0.0.1:{free_port()}/profiles/default"
    with taught_client(sqlite_url(folder), follow=nobody) as client:
        application = client.app.state.application
        client.post("/classify", content=SPAM[0], headers=RAW)
        application.tally.acted("milter", "reject")
        found = {"up": set()}
        for family in Collected(application, ["default"]).collect():
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def asked():
    """Return the expressions of the files, each with the labels that are shown."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            shown = SHOWN.findall(" ".join(rule["annotations"].values()))
            yield rule["alert"], rule["expr"], shown
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            shown = SHOWN.findall(target["legendFormat"])
            yield panel["title"], target["expr"], shown
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            query = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"])
            yield variable["name"], query[1], [query[2]]


EXPRESSIONS = [*asked()]


@pytest.mark.parametrize(
    ("expression", "shown"),
    [each[1:] for each in EXPRESSIONS],
    ids=[each[0] for each in EXPRESSIONS],
)
def test_each_metric_and_label_is_there(series, expression, shown):
    """With a misspelt name, Prometheus would never raise the alarm."""
    selected = SELECTED.findall(expression)
    named = {name for _, labels in selected for name in NAME.findall(labels)}
    for group in GROUPED.findall(expression):
        named |= {each.strip() for each in group.split(",")}
    there = set(ADDED)
    for metric, _ in selected:
        assert metric in series
        there |= series[metric]
    if "_bucket" in expression:
        there.add("le")

    assert selected
    assert named | set(shown) <= there


def test_what_an_alert_watches_for_growth_is_there_before_it_happens():
    """To Prometheus a series that begins with 1 has not grown, and nobody is alarmed."""
    told = generate_latest(Tally().registry).decode().splitlines()
    single = re.compile(r"increase\((\w+)\{(\w+=\"\w+\")\}\[15m\]\)+ > 0$")
    watched = [found for _, asks, _ in EXPRESSIONS if (found := single.search(asks))]

    assert 2 == len(watched)
    for found in watched:
        line = re.compile(rf"{found[1]}\{{.*{found[2]}.*\}} 0\.0")
        assert any(line.fullmatch(each) for each in told), found[0]


def test_a_new_profile_raises_no_alarm_about_what_it_has_not_learned():
    """It is unsure of its first messages, and one of them alone is a share of all."""
    share = re.compile(
        r"postbayes_(\w+) > ([\d.]+) and on \(instance, profile\) "
        r"sum by .* \(postbayes_source_messages.*\) >= (\d+)$"
    )
    found = {
        match[1]: float(match[2]) * int(match[3])
        for name, asks, _ in EXPRESSIONS
        if name.startswith("Postbayes") and (match := share.match(asks))
    }

    assert {"ham_lost_ratio", "spam_missed_ratio", "calibration_error"} == set(found)
    assert all(messages >= 1 for messages in found.values())


def test_counters_are_rates_and_gauges_are_not():
    """A counter by itself only shows for how long the service has run."""
    for title, expression, _ in EXPRESSIONS:
        for metric, _ in SELECTED.findall(expression):
            counts = metric.endswith(("_total", "_bucket", "_sum", "_count"))
            rated = re.search(rf"\b(?:rate|increase)\({metric}\b", expression)

            assert counts == bool(rated), title


def test_each_alert_says_what_it_means():
    """A sentence, what to do, and how urgent it is; each under a name of its own."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]

    assert len(rules) == len({rule["alert"] for rule in rules})
    for rule in rules:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"].endswith((".", "?"))


def test_each_alert_is_explained():
    """The table of alarms has the metric of each alert."""
    alarms = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    alarms = alarms.split("### Alarms")[1].split("\n### ")[0]
    for name, expression, _ in EXPRESSIONS:
        if name.startswith("Postbayes"):
            metric = SELECTED.search(expression)[1].removesuffix("_bucket")

            assert f"`{metric}" in alarms, name


def test_prometheus_and_grafana_find_the_files():
    """The provisioned files exist, and the service is scraped."""
    prometheus = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    [job] = prometheus["scrape_configs"]

    assert [RULES.name] == prometheus["rule_files"]
    assert "postbayes" == job["job_name"]
    for path in (DEPLOY / "grafana" / "provisioning").rglob("*.yml"):
        assert 1 == yaml.safe_load(path.read_text())["apiVersion"]
    board = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert sorted(set(ids)) == ids
