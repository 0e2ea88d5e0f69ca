"""The Debian package: what it holds and says, without the libraries."""

from __future__ import annotations

import os
import re
import subprocess
from functools import partial
from pathlib import Path
from runpy import run_path

import pytest

from app import __version__
from app.doors.cli.main import COMMANDS
from app.errors import InvalidSetting
from app.settings import load_settings
from app.storage.database.engine import open_engine
from tests.support.clients import find
from tests.support.command import run_program

ROOT = Path(__file__).parent.parent.parent
DEBIAN = ROOT / "deploy" / "debian"
COPIED = ("LICENSE", "app/__init__.py", "deploy", "scripts/debian-package")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package that was laid out in a folder of its own."""
    find("dpkg-deb")
    folder = tmp_path_factory.mktemp("package")
    for name in COPIED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", ROOT / name, folder / name], check=True)
    subprocess.run(
        [folder / "scripts" / "debian-package"],
        env={**os.environ, "STAGE_ONLY": "1"},
        capture_output=True,
        check=True,
    )
    [made] = (folder / "dist").iterdir()
    return made


def dpkg_deb(*arguments):
    """Return what dpkg-deb prints."""
    return subprocess.run(
        [find("dpkg-deb"), *arguments], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.clients
def test_the_package_has_name_version_and_python(package):
    """The Python is the one that the environment was made with, and no newer."""
    fields = dict(
        re.findall(r"^([A-Z][\w-]+): (.*)$", dpkg_deb("-f", package), re.MULTILINE)
    )

    assert ("postbayes", __version__) == (fields["Package"], fields["Version"])
    assert f"postbayes_{__version__}_{fields['Architecture']}.deb" == package.name
    assert re.match(r"python3\.\d+ \(>= 3\.11\), ", fields["Depends"])
    assert int(fields["Installed-Size"]) > 0


@pytest.mark.clients
def test_each_file_has_its_place_and_is_of_root(package):
    """The files name no path of the build machine, and only root may write them."""
    lines = [line.split() for line in dpkg_deb("-c", package).splitlines()]
    files = {line[5]: line[0] for line in lines if not line[0].startswith("d")}

    assert {
        "./etc/postbayes/postbayes.env",
        "./opt/postbayes/share/compile",
        "./usr/bin/postbayes",
        "./usr/lib/systemd/system/postbayes-digest.service",
        "./usr/lib/systemd/system/postbayes-digest.timer",
        "./usr/lib/systemd/system/postbayes.service",
        "./usr/lib/sysusers.d/postbayes.conf",
        "./usr/lib/tmpfiles.d/postbayes.conf",
        "./usr/share/bash-completion/completions/postbayes",
        "./usr/share/doc/postbayes/copyright",
        "./usr/share/fish/vendor_completions.d/postbayes.fish",
        "./usr/share/man/man1/postbayes.1.gz",
    } == files.keys()
    assert {"root/root"} == {line[1] for line in lines}
    assert "-rwxr-xr-x" == files["./usr/bin/postbayes"]
    assert not any(mode[5] == "w" or mode[8] == "w" for mode in files.values())


def test_all_that_the_service_imports_can_be_compiled():
    """The package and the image run this script, and neither can be built without it."""
    script = str(ROOT / "deploy" / "compile")
    done = run_program(partial(run_path, script, run_name="__main__"), [])

    assert "" == done.stderr
    assert [f"command {name}" for name in COMMANDS] == done.stdout.splitlines()


def test_the_settings_stay_what_the_operator_made_them():
    """An upgrade asks before it replaces a changed file."""
    assert "/etc/postbayes/postbayes.env\n" == (DEBIAN / "conffiles").read_text()


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm", "wrapper"])
def test_scripts_are_of_the_shell_that_every_debian_has(script):
    """The scripts run under dash, and end at the first error."""
    text = (DEBIAN / script).read_text()
    subprocess.run(["sh", "-n", DEBIAN / script], check=True)

    assert text.startswith("#!/bin/sh\n")
    assert script == "wrapper" or "\nset -e\n" in text


def test_nothing_is_started_unasked_and_data_are_removed_by_purge_alone():
    """Installing starts nothing, and removing the package keeps the data."""
    scripts = {path.name: path.read_text() for path in DEBIAN.iterdir()}

    assert not re.search(
        r"systemctl (?:.* )?(?:start|restart|enable)\b", scripts["postinst"]
    )
    removed = scripts["postrm"].split('"$1" = purge')[1].split("\nfi")[0]
    assert "rm -rf /var/lib/postbayes /etc/postbayes" in removed
    assert 1 == sum(text.count("rm -rf /var") for text in scripts.values())


READ, SEEN, ENTERED = '[ -r "$settings" ]', '[ -e "$settings" ]', '[ -x "$folder" ]'


def exported(settings, *, denied=(), **variables):
    """Return the variables that the wrapper gives the command."""
    wrapper = (DEBIAN / "wrapper").read_text()
    for old, new in {
        "/etc/postbayes/postbayes.env": str(settings),
        '/opt/postbayes/bin/postbayes "$@"': "env",
        # Root may read everything.
        **dict.fromkeys(denied, "false"),
    }.items():
        assert old in wrapper
        wrapper = wrapper.replace(old, new)
    done = subprocess.run(
        ["sh", "-c", wrapper],
        cwd="/",
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    return dict(each.split("=", 1) for each in lines if each.startswith("POSTBAYES_"))


def test_a_command_has_the_settings_of_the_service(tmp_path):
    """It uses them if its user may read them and names no others."""
    settings = tmp_path / "postbayes.env"

    assert {} == exported(settings)
    settings.touch()
    assert {"POSTBAYES_SETTINGS_FILE": str(settings)} == exported(settings)
    other = {"POSTBAYES_SETTINGS_FILE": "other"}
    assert other == exported(settings, **other)


@pytest.mark.parametrize("denied", [[READ], [READ, SEEN, ENTERED]])
def test_a_user_who_may_not_read_the_settings_gets_no_other_database(
    denied, tmp_path, monkeypatch
):
    """Nor one who may not enter their folder, as other users of a package may not."""
    settings = tmp_path / "postbayes.env"
    settings.touch()
    for name, value in exported(settings, denied=denied).items():
        monkeypatch.setenv(name, value)
    url = load_settings().database_url

    with pytest.raises(InvalidSetting, match=f"named in {settings}, which this user"):
        open_engine(url)
    own = {"POSTBAYES_DATABASE_URL": "sqlite:///own.db"}
    assert own == exported(settings, denied=denied, **own)
