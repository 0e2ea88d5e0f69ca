"""The README's tour, run as it stands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def blocks(language, heading):
    """Return the code blocks of one language under one heading."""
    section = README.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def includes(shown, real):
    """Tell whether what is shown is a part of what is real, as it is rounded."""
    if isinstance(shown, dict):
        return all(includes(value, real[key]) for key, value in shown.items())
    if isinstance(shown, list):
        pairs = zip(shown, real, strict=True)
        return all(includes(a, b) for a, b in pairs)
    if isinstance(shown, float):
        return shown == round(real, 2)
    return shown == real


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tour needs curl")
def test_the_tour_prints_what_the_readme_shows(service):
    """Its commands run in order, and the page that it then opens has the message."""
    service.start()
    teach, classify, by_id = blocks("sh", "Two minutes")
    (shown,) = blocks("json", "Two minutes")
    script = f"{teach}\n{classify}\n{by_id}"

    done = subprocess.run(
        ["bash", "-euo", "pipefail"],
        input=script.replace("127.0.0.1:8025", f"127.0.0.1:{service.port}"),
        capture_output=True,
        text=True,
        check=True,
    )

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["learned"] * 4 == [answer["outcome"] for answer in answers[:4]]
    assert includes(json.loads(shown), answers[4])
    learned, undone = answers[5:]
    assert "learned" == learned["outcome"]
    assert [{"label_before": "spam", "label": None, "messages": 1}] == undone[
        "messages"
    ]
    # What was scored last is written when the service stops.
    service.stop()
    service.start()
    history = service.client.get("/history").json()["entries"]
    assert [answers[4]["id"]] == [entry["id"] for entry in history]


def test_every_link_of_the_readme_leads_somewhere():
    """A relative link names a file or folder that is there."""
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text())

    assert links
    assert [] == [link for link in links if not (README.parent / link).exists()]
