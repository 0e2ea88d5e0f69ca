"""Real clients of the doors: those of Debian's packages, where they are there."""

from __future__ import annotations

import os
import shutil

import pytest

REQUIRE = "POSTBAYES_REQUIRE_CLIENTS"

PACKAGES = {
    "maildrop": "maildrop",
    "procmail": "procmail",
    "spamc": "spamc",
    "rspamc": "rspamd",
}


def find(program):
    """Return the path of a program; skip the test where it is not installed."""
    path = shutil.which(program)
    if path is None:
        reason = f"{program} is not installed (apt install {PACKAGES[program]})"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{reason}, but {REQUIRE}=1")
        pytest.skip(f"{reason}: not tested")
    return path
