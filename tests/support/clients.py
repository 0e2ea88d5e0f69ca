"""Other programs that the tests run: Debian's packages, where they are there."""

from __future__ import annotations

import os
import shutil

import pytest

REQUIRE = "POSTBAYES_REQUIRE_CLIENTS"

PACKAGES = {
    "bogofilter": "bogofilter",
    "dpkg-deb": "dpkg",
    "exim4": "exim4-daemon-heavy",
    "filter-rspamd": "opensmtpd-filter-rspamd",
    "maildrop": "maildrop",
    "mandoc": "mandoc",
    "nginx": "nginx",
    "notmuch": "notmuch",
    "pgbouncer": "pgbouncer",
    "php": "php-cli",
    "procmail": "procmail",
    "spamc": "spamc",
    "rspamc": "rspamd",
    "rspamd": "rspamd",
    "systemd-analyze": "systemd",
}


def find(program):
    """Return the path of a program; skip the test where it is not installed."""
    # Not everybody's path has the folders of servers and of their filters.
    others = "/usr/sbin:/usr/libexec/opensmtpd"
    path = shutil.which(program, path=f"{os.environ['PATH']}:{others}")
    if path is None:
        reason = f"{program} is not installed (apt install {PACKAGES[program]})"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{reason}, but {REQUIRE}=1")
        pytest.skip(f"{reason}: not tested")
    return path
