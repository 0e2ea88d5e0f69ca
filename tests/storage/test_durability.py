"""What was acknowledged is there, whatever happened to the process."""

from __future__ import annotations

import subprocess
import sys

from app.storage import profiles
from app.storage.database.engine import reading
from app.storage.fold import audit
from app.storage.ledger import rows_after
from tests.support.builders import digest, fold_all, new_profile, taught, teach

# Teaches without end, says so after each commit, and folds now and then.
PROGRAM = """
import sys
from itertools import count
from app.storage import profiles
from app.storage.database.engine import open_engine, reading, writing
from app.storage.ledger import append
from tests.support.builders import fold, taught

engine = open_engine(sys.argv[1])
with reading(engine) as connection:
    profile = profiles.find(connection, sys.argv[2])
for n in count(int(sys.argv[3])):
    words = {f"word{i}": 1 for i in range(n % 50, n % 50 + 40)}
    pairs = {"x": n % 9 + 1, "y": 1}
    with writing(engine) as connection:
        append(connection, profile, [taught(n, "spam" if n % 2 else "ham", words, pairs)])
    print(n, flush=True)
    if n % 3 == 2:
        with writing(engine) as connection:
            fold(connection, profile, limit=5)
"""


def teach_until_killed(url, profile, start, acknowledged):
    """Run the program, kill it after so many answers, and return all answers."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url, profile.name, str(start)],
        stdout=subprocess.PIPE,
        text=True,
    )
    answers = [int(process.stdout.readline()) for _ in range(acknowledged)]
    process.kill()
    answers += [int(line) for line in process.communicate()[0].splitlines()]
    return answers


def test_what_was_acknowledged_survives_a_kill(engine, database_url):
    """Each once, at most one more, and the audit is zero, time after time."""
    profile = new_profile(engine)
    taught_so_far = 0
    for acknowledged in (1, 20):
        answers = teach_until_killed(database_url, profile, taught_so_far, acknowledged)
        with reading(engine) as connection:
            rows = rows_after(connection, profile.id, revision=0, limit=10**6)
            found = audit(connection, profile)
        expected = taught_so_far + len(answers)

        # One that was committed may not have been answered.
        assert len(rows) in {expected, expected + 1}
        assert [digest(n) for n in range(len(rows))] == [row.digest for row in rows]
        assert found.sound
        taught_so_far = len(rows)

    fold_all(engine, profile)
    with reading(engine) as connection:
        found = audit(connection, profile)
        again = profiles.find(connection, profile.name)
    assert (True, taught_so_far) == (found.sound, found.folded_revision)
    assert taught_so_far == again.revision
    assert ["unchanged"] == [
        outcome.kind for outcome in teach(engine, profile, taught(0, "ham"))
    ]
