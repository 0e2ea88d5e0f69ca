"""The containers: profiles of the compose file, and what the image says of itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from app.settings import Settings

ROOT = Path(__file__).parent.parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]


@pytest.mark.parametrize(
    ("profile", "services"),
    [
        ("postgres", {"postgres"}),
        ("mail", {"mail"}),
        ("monitoring", {"prometheus", "grafana"}),
    ],
)
def test_each_profile_adds_its_services(profile, services):
    """The services of a profile come in addition to Postbayes itself."""
    assert services == {
        name for name, each in SERVICES.items() if profile in each.get("profiles", ())
    }
    assert "profiles" not in SERVICES["postbayes"]


def test_without_a_profile_nothing_has_to_be_set():
    """The whole file is parsed under every profile, so no variable may be missing."""
    environment = SERVICES["postbayes"]["environment"]

    assert not re.search(r"\$\{\w+:?\?", (ROOT / "docker-compose.yml").read_text())
    assert environment["POSTBAYES_DATABASE_URL"].startswith(
        "${POSTBAYES_DATABASE_URL:-sqlite:////var/lib/postbayes/"
    )
    # With `:-`, an empty value, which lets in nobody without a key, would be the default.
    assert environment["POSTBAYES_KEYLESS_FROM"].startswith(
        "${POSTBAYES_KEYLESS_FROM-127."
    )
    for name, each in SERVICES.items():
        for needed in each.get("depends_on", ()):
            assert SERVICES[needed].get("profiles") in (None, each["profiles"]), name


def test_the_service_gets_each_setting_of_the_environment_file():
    """A setting in `.env` that the file does not name has no effect, and no error."""
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    of_the_image = set(re.findall(r"\b(POSTBAYES_\w+)=", dockerfile))
    settings = {f"POSTBAYES_{name.upper()}" for name in Settings.model_fields}
    passed = SERVICES["postbayes"]["environment"]
    ignored = {*of_the_image, "POSTBAYES_SETTINGS_FILE"} - passed.keys()
    ignored |= {name for name, value in passed.items() if value and name not in value}
    documented = (ROOT / "docs" / "docker.md").read_text(encoding="utf-8")
    [line] = [each for each in documented.splitlines() if "are ignored there" in each]

    assert settings == passed.keys() | of_the_image
    assert ignored == set(re.findall("`(POSTBAYES_[A-Z_]+)`", line))


def test_the_documents_name_networks_of_the_compose_file():
    """A command of another network would fail, or reach no service."""
    named = {
        name
        for path in (ROOT / "docs").glob("*.md")
        for name in re.findall(
            r"(?:--network|docker network inspect) postbayes_(\w+)", path.read_text()
        )
    }

    assert named == COMPOSE["networks"].keys()


def test_no_image_that_is_built_here_is_pulled():
    """An image of the same name in a registry would be another one."""
    for name, each in SERVICES.items():
        assert ("build" in each) == (each.get("pull_policy") == "never"), name


def test_what_is_mounted_is_there():
    """Mounted files exist, and volumes and networks are declared."""
    for each in SERVICES.values():
        for mounted in each.get("volumes", ()):
            source = mounted.split(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).is_dir()
                assert mounted.endswith(":ro")
            else:
                assert source in COMPOSE["volumes"]
        assert set(each["networks"]) <= COMPOSE["networks"].keys()


def test_the_bill_of_materials_names_what_is_installed():
    """Each locked library once, with its version; twice gives the same bytes."""
    bills = [
        subprocess.run(
            [sys.executable, "-I", ROOT / "scripts" / "sbom"],
            capture_output=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    bill = json.loads(bills[0])
    found = [(each["name"], each["version"]) for each in bill["components"]]
    locked = re.findall(
        r"^([\w.-]+)==(\S+)",
        (ROOT / "requirements" / "run.txt").read_text(),
        re.MULTILINE,
    )

    assert bills[0] == bills[1]
    assert ("CycloneDX", "1.6") == (bill["bomFormat"], bill["specVersion"])
    assert "postbayes" == bill["metadata"]["component"]["name"]
    assert len(found) == len({name for name, _ in found})
    # Some are for other systems.
    assert len(set(locked) & set(found)) > 0.9 * len(locked)
    for each in bill["components"]:
        assert f"pkg:pypi/{each['name']}@{each['version']}" == each["purl"]
