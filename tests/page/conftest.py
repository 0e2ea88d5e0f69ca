"""Chromium without a screen, and a service with a few messages to look at."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service as Driver

from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import Service

REQUIRE = "POSTBAYES_REQUIRE_BROWSER"
PHONE = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
TABLET = {"width": 768, "height": 1024, "deviceScaleFactor": 1, "mobile": True}
# A window of 1280 pixels at 400 % (WCAG 2.2, 1.4.10).
ZOOMED = {"width": 320, "height": 256, "deviceScaleFactor": 4, "mobile": False}
DESK = {"width": 1120, "height": 560, "deviceScaleFactor": 1, "mobile": False}
UNSURE = (
    b"From: Tilda Holm <tilda@harbour.example>\nTo: crew@harbour.example\n"
    b"Subject: Prize for the regatta\n\nWho collects the cup and the prize money?\n",
    b"From: Quay Office <office@harbour.example>\nTo: crew@harbour.example\n"
    b"Subject: Account for berth 12\n\nYour account is attached, pay in May.\n",
)


def pytest_collection_modifyitems(items):
    """Mark what starts a browser."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A service that has learned 80 messages and scored 20 others."""
    folder = tmp_path_factory.mktemp("site")
    service = Service(sqlite_url(folder), folder)
    # Else it depends on the moment which lesson of a suspect is the last.
    service.environment["POSTBAYES_SUSPECTS"] = "log"
    try:
        service.start()
        for n in range(40):
            service.teach(ham(n), "ham")
            service.teach(spam(n), "spam")
        found = [
            service.classify(each(n)) for n in range(50, 59) for each in (ham, spam)
        ]
        found += [service.classify(raw) for raw in UNSURE]
        service.ids = {each["id"] for each in found}
        yield service
    finally:
        service.client.close()
        service.kill()


@pytest.fixture(scope="module")
def chromium():
    """A browser of its own; without Chromium the test is skipped."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if None in programs.values():
        reason = "Chromium is not installed (apt install chromium-driver): not tested"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{reason}, but {REQUIRE}=1")
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Driver(programs["chromedriver"]))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium, site):
    """The browser at the service; its console has said nothing when the test ends."""
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESK)
    chromium.site = f"http://127.0.0.1:{site.port}"
    chromium.get_log("browser")
    yield chromium
    # The tests come in any order, and find the scored messages untaught.
    entries = site.client.get("/history?limit=200").json()["entries"]
    taught = {
        each["id"] for each in entries if each["label"] and each["id"] in site.ids
    }
    if taught:
        site.client.post("/feedback/undo", json={"ids": sorted(taught)})
    # Violations of the policy and errors of scripts stand there.
    said = chromium.get_log("browser")
    chromium.get("about:blank")
    assert [] == said


@pytest.fixture
def picture(chromium):
    """Keeps what the browser shows for the documents, where PICTURES names a folder."""
    folder = os.environ.get("PICTURES")

    def keep(name):
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            chromium.save_screenshot(f"{folder}/{name}.png")

    return keep
