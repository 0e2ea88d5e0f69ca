"""The harness that kills services under load, a few times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_kills_under_load_lose_nothing_that_was_acknowledged(database_url):
    """Nothing lost, nothing by halves, nothing twice, and the audit is zero."""
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "scripts" / "kill",
            *("--kills", "5", "--database-url", database_url),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    counted = json.loads(done.stdout)

    assert 0 == done.returncode
    assert {
        "kills": 5,
        "acknowledged_lost": 0,
        "learned_twice": 0,
        "half_stored": 0,
        "audit_difference": 0,
    }.items() <= counted.items()
    assert 0 < counted["acknowledged"] <= counted["ledger_rows"]
