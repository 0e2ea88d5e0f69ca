"""The systemd unit: systemd itself reads it, and what it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from app.doors.cli.serve import FILES
from tests.support.clients import find

SYSTEMD = Path(__file__).parent.parent.parent / "deploy" / "systemd"
UNIT = SYSTEMD / "postbayes.service"
DIGEST = "postbayes-digest"


def options():
    """Return the section [Service] of the unit; of repeated options the last one."""
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(UNIT, encoding="utf-8")
    return parser["Service"]


@pytest.mark.clients
@pytest.mark.parametrize(
    "names", [[UNIT.name], [f"{DIGEST}.service", f"{DIGEST}.timer"]]
)
def test_systemd_finds_nothing_wrong(tmp_path, names):
    """The unit's command and manual page exist."""
    units = [tmp_path / name for name in names]
    for unit in units:
        text = (SYSTEMD / unit.name).read_text(encoding="utf-8")
        text = text.replace("/usr/bin/postbayes", sys.executable)
        unit.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.MULTILINE))
    done = subprocess.run(
        [find("systemd-analyze"), "verify", *units],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.clients
def test_the_service_is_exposed_little():
    """By the scale of systemd, from 0 to 10; an unhardened service has 9.6."""
    printed = subprocess.run(
        [
            *(find("systemd-analyze"), "security", "--no-pager"),
            *("--offline=true", "--threshold=20", UNIT),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    exposure = re.search(r"exposure level for .*: (\d+\.\d)", printed.stdout)

    assert exposure is not None, printed.stderr
    assert float(exposure[1]) < 2
    assert 0 == printed.returncode


def test_the_kernels_may_be_compiled():
    """Without memory that is written and run, the first import of numba fails."""
    assert "false" == options()["MemoryDenyWriteExecute"]


def test_the_process_can_be_found_by_the_one_that_makes_its_namespace():
    """With both, systemd 252 ends the unit with 217/USER before it begins."""
    assert not {"PrivateUsers", "ProtectProc"} <= options().keys()


def test_a_wrong_setting_is_not_tried_again():
    """Otherwise, systemd would restart the service forever."""
    assert "78" == options()["RestartPreventExitStatus"]
    assert "notify" == options()["Type"]
    assert "/bin/kill -HUP $MAINPID" == options()["ExecReload"]


def test_the_unit_waits_as_long_as_the_service_takes():
    """Requests in progress have 30 seconds, and the unit waits longer."""
    assert int(options()["TimeoutStopSec"]) > 30


def test_the_unit_may_open_as_many_files_as_the_service_wants():
    """Its filter of system calls may keep the service from asking for more."""
    assert FILES <= int(options()["LimitNOFILE"])


def test_the_user_of_the_unit_is_made():
    """sysusers.d creates the user that owns the folders."""
    made = (SYSTEMD / "sysusers.conf").read_text().split()
    folders = [
        line.split() for line in (SYSTEMD / "tmpfiles.conf").read_text().splitlines()
    ]

    assert ["u", options()["User"]] == made[:2]
    assert {"/etc/postbayes", "/var/lib/postbayes"} == {each[1] for each in folders}
    assert all(options()["Group"] == each[4] for each in folders)
