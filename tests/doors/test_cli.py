"""The command line: what it prints, and with which code it ends."""

from __future__ import annotations

import importlib
import json
import mailbox
import os
import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path

import pytest

from app.doors.cli.main import EXIT, exit_code
from app.errors import DatabaseTooNew, DatabaseUnavailable, PostbayesError, UnknownLabel
from app.exchange.format.blocks import BlockWriter
from tests.support.messages import HAM, SPAM, ham, spam

ROOT = str(Path(__file__).parent.parent.parent)


def learned(run, *arguments, stdin=b""):
    """Run `learn --json` and return its counts."""
    code, out, err = run("learn", "--json", *arguments, stdin=stdin)
    assert (0, "") == (code, err)
    figures = json.loads(out)
    assert 0 == figures["unreadable"]
    return {k: figures[k] for k in ("learned", "relabelled", "unchanged", "empty")}


def test_an_index_is_learned_once(run, index):
    """Run again, it changes nothing."""
    first = learned(run, "--index", index)
    again = learned(run, "--index", index, "--batch", "3")

    assert {"learned": 20, "relabelled": 0, "unchanged": 0, "empty": 0} == first
    assert {"learned": 0, "relabelled": 0, "unchanged": 20, "empty": 0} == again
    assert (0, "default: difference 0\n", "") == run("audit")


def test_an_interrupted_run_keeps_whole_batches(run, index):
    """A stream that breaks in the middle leaves what was committed, and resumes."""
    lines = index.read_text()
    index.write_text(lines.replace("ham ham5\n", "ham nowhere\n"))

    code, _, err = run("learn", "--index", index, "--batch", "4")

    assert 65 == code
    assert "nowhere" in err
    index.write_text(lines)
    assert {"learned": 12, "unchanged": 8, "relabelled": 0, "empty": 0} == learned(
        run, "--index", index
    )


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_message_that_cannot_be_read_is_named_and_passed_over(
    run, index, monkeypatch, form
):
    """The others are learned; the command ends with the code of a defect."""
    module = importlib.import_module("app.services.learn")
    real = module.observe

    def observe(raw, views):
        if b"agenda 7" in raw:
            raise IndexError
        return real(raw, views)

    monkeypatch.setattr(module, "observe", observe)
    code, out, err = run("learn", "--index", index, *form)

    assert 70 == code
    assert "ham7 is passed over: it cannot be read" in err
    assert "1 of the messages could not be read" in err
    assert ('"unreadable": 1' if form else "1 passed over") in out
    assert ('"learned": 19' if form else "19 learned") in out


def test_a_folder_an_mbox_and_a_maildir_are_learned(run, tmp_path):
    """Mail is learned from wherever people keep it."""
    box = mailbox.mbox(tmp_path / "spam.mbox")
    for raw in SPAM:
        box.add(raw)
    box.close()
    maildir = mailbox.Maildir(tmp_path / "Maildir", create=True)
    maildir.add(HAM[0])
    maildir.add_folder("Junk").add(spam(8))
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.eml").write_bytes(HAM[1])

    assert 3 == learned(run, "--label", "spam", tmp_path / "spam.mbox")["learned"]
    both = learned(run, "--label", "ham", "--junk", "spam", tmp_path / "Maildir")
    assert 2 == both["learned"]
    assert 1 == learned(run, "--label", "ham", folder)["learned"]
    with sqlite3.connect(tmp_path / "postbayes.db") as db:
        rows = dict(db.execute("SELECT label, messages FROM class_count").fetchall())
    assert {"ham": 2, "spam": 4} == rows


def test_a_message_is_classified_and_explained(run, index, tmp_path):
    """The decision stands first; --explain lists the reasons."""
    learned(run, "--index", index)
    (tmp_path / "new").write_bytes(spam(77))

    code, out, _ = run("classify", "--explain", "3", tmp_path / "new")

    lines = out.splitlines()
    assert 0 == code
    assert lines[0].startswith("spam")
    assert 1 + 1 + 3 + 3 + 1 == len(lines)
    assert "other features" in lines[-1]


def test_json_of_a_message_on_standard_input(run, index):
    """--json prints the document of the HTTP door."""
    learned(run, "--index", index)

    code, out, _ = run("classify", "--json", stdin=ham(78))

    assert 0 == code
    assert "ham" == json.loads(out)["decision"]


def test_feedback_is_taught_moved_and_forgotten(run):
    """One message from standard input; then by its id."""
    code, out, _ = run("feedback", "--label", "spam", "--json", stdin=HAM[0])
    taught = json.loads(out)
    moved = run("feedback", "--label", "ham", "--id", taught["id"])
    forgotten = run("feedback", "--forget", "--id", taught["id"])
    again = run("feedback", "--forget", "--id", taught["id"])

    assert (0, "learned", 1) == (code, taught["outcome"], taught["revision"])
    assert moved[1].startswith("relabelled: ham, was spam")
    assert forgotten[1].startswith("forgotten: was ham")
    assert (65, "nothing to forget") == (again[0], again[2].strip()[-17:])


def test_an_audit_finds_a_changed_count(run, index, tmp_path):
    """A count that somebody changed is a difference, and exit code 1."""
    learned(run, "--index", index)
    with sqlite3.connect(tmp_path / "postbayes.db") as db:
        db.execute("UPDATE class_count SET messages = messages + 1 WHERE label = 'ham'")

    code, out, _ = run("audit", "--json")

    document = json.loads(out)
    assert 1 == code
    assert document["difference"] > 0
    assert document["difference"] == document["profiles"]["default"]["difference"]


def test_profiles_are_made_and_listed(run):
    """Labels of a profile are chosen when it is made."""
    code, out, _ = run(
        "profiles",
        "--create",
        "site",
        "--labels",
        "ham,spam,phishing",
        "--spam-labels",
        "spam,phishing",
    )

    assert 0 == code
    assert "site  revision 0  labels ham, spam (spam), phishing (spam)" in out
    assert "default  revision 0" in out
    code, _, err = run("profiles", "--create", "site", "--labels", "a,spam")
    assert 65 == code
    assert "site" in err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["learn"], 65, "--index FILE"),
        (["learn", "--index", "i", "--label", "ham", "x"], 65, "--index FILE"),
        (["learn", "--index", "nowhere"], 65, "nowhere"),
        (["learn", "nowhere", "--label", "ham"], 65, "nowhere"),
        (["learn", "."], 65, "--label spam"),
        (["classify", "nowhere"], 65, "nowhere"),
        (["classify", "--profile", "nobody"], 65, "nobody"),
        (["feedback"], 65, "--label"),
        (["feedback", "--label", "junk"], 65, "ham, spam"),
        (["feedback", "--forget"], 65, "--id"),
        (["feedback", "--forget", "--id", "zz"], 65, "32 hexadecimal"),
        (["feedback", "--label", "ham", "--id", "00", "file"], 65, "not both"),
        (["feedback", "--label", "ham", "--source", "a\nb"], 65, "source"),
        (["learn", "--label", "ham", "--source", "x" * 65, "x"], 65, "source"),
        (["audit", "--profile", "nobody"], 65, "nobody"),
        (["profiles", "--create", "x", "--labels", "spam"], 78, "labels"),
        (["profiles", "--create", "a b"], 78, "named by"),
        (["classify", "--url", "http://127.0.0.1:1"], 75, "does not answer"),
    ],
)
@pytest.mark.usefixtures("index")
def test_each_mistake_has_its_code_and_a_sentence(run, arguments, code, says):
    """Mistakes end with a code of sysexits.h and say what to do."""
    got, _, err = run(*arguments, stdin=b"Subject: x\n\ny\n")

    assert code == got
    assert says in err
    assert "Traceback" not in err


def test_ctrl_c_says_what_is_kept(run, index, monkeypatch):
    """An interrupted command ends with the code of its signal, and a sentence."""

    def interrupted(index):
        yield from islice(real(index), 5)
        raise KeyboardInterrupt

    module = importlib.import_module("app.doors.cli.learn")
    real = module.read_index
    monkeypatch.setattr(module, "read_index", interrupted)

    code, _, err = run("learn", "--index", index)

    assert 130 == code
    assert "interrupted" in err


def test_something_else_at_the_url_is_said(run, tmp_path):
    """An answer that is not Postbayes's is no traceback."""
    (tmp_path / "classify").write_text("<html>")

    class Quiet(SimpleHTTPRequestHandler):
        """Serves the folder for any method, and logs nothing."""

        def do_POST(self):
            """Answer a POST as a GET."""
            self.do_GET()

        def log_message(self, *_):
            """Log nothing."""

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))
    ) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        code, _, err = run("classify", "--url", url, stdin=HAM[0])
        server.shutdown()

    assert (65, True) == (code, "not Postbayes" in err)


def test_a_bad_setting_names_its_variable(run, monkeypatch):
    """A setting that cannot be used names itself and its value."""
    monkeypatch.setenv("POSTBAYES_PORT", "eighty")

    code, _, err = run("profiles")

    assert 78 == code
    assert "POSTBAYES_PORT" in err
    assert "eighty" in err


def test_a_settings_file_is_read(run, tmp_path):
    """`postbayes.env` in the working directory holds settings, line by line."""
    (tmp_path / "postbayes.env").write_text("POSTBAYES_PROFILE=mine\n")

    _, out, _ = run("profiles")

    assert out.startswith("mine")


def test_a_settings_file_that_is_missing_is_said(run, monkeypatch):
    """A named file that is not there is an error, not a silent default."""
    monkeypatch.setenv("POSTBAYES_SETTINGS_FILE", "nowhere.env")

    code, _, err = run("profiles")

    assert (78, True) == (code, "nowhere.env" in err)


def test_the_version_is_printed(run):
    """--version prints it and stops."""
    code, out, _ = run("--version")

    assert (0, True) == (code, out.startswith("postbayes "))


def test_every_error_has_an_exit_code():
    """The nearest ancestor decides; mail servers try again after a 75."""
    assert 75 == exit_code(DatabaseUnavailable("x"))
    assert 65 == exit_code(UnknownLabel("x"))
    assert 70 == exit_code(DatabaseTooNew("x"))
    assert PostbayesError in EXIT


def test_figures_are_printed_for_a_person(run, index):
    """Errors, ranking and both tables, of messages that were learned."""
    run("learn", "--index", index)

    code, out, _ = run("figures", "--window", 12)

    assert 0 == code
    assert "the newest 12 messages that were scored and then labelled" in out
    for expected in ("ham lost", "1-ROCA", "Errors over time", "Where it said"):
        assert expected in out


def test_figures_of_nothing_say_so(run):
    """An empty profile has no errors to show, and no traceback."""
    assert (0, "") == run("figures")[::2]
    assert "the newest 0 messages" in run("figures")[1]


def test_a_word_is_shown_with_its_counts(run, index):
    """How many messages of each label have it; an unknown one is told so."""
    run("learn", "--index", index)

    assert "words: agenda in 10 of 10 ham, 0 of 10 spam" in run("word", "agenda")[1]
    assert (
        "default has not seen 'zyzzyva' in the 20 messages"
        in (run("word", "zyzzyva")[1])
    )


def test_a_word_is_shown_month_by_month(run, index, monkeypatch):
    """With what it said, and with a half-life what each month still weighs."""
    run("learn", "--index", index)
    without = run("word", "agenda")[1]
    monkeypatch.setenv("POSTBAYES_HALF_LIFE_MONTHS", "6")
    out = run("word", "agenda")[1]

    # The log of 0.5 of 11 spam to 10.5 of 11 ham.
    assert "-3.04" in without
    assert "weight" not in without
    assert "weight" in out
    assert "1.000" in out
    assert 1 == max(line.count("10 of 10") for line in out.splitlines()[1:])


def test_a_word_is_headed_by_what_its_view_has_learned(run, index):
    """A dump has no pairs, and so what it counts is not of their messages."""
    run("learn", "--index", index)
    dumps = Path(__file__).parent.parent / "golden" / "dumps"
    run("import", dumps / "bogofilter.txt", "--from", "bogofilter")

    assert "words: usual in 5 of 11 ham, 0 of 11 spam" in run("word", "usual")[1]
    pair = run("word", "usual place")[1]
    assert "pairs: usual place in 4 of 10 ham, 0 of 10 spam" in pair


def test_figures_and_words_are_the_documents_of_http(run, index):
    """`--json` is one object with the fields of the HTTP door."""
    run("learn", "--index", index)

    figures = json.loads(run("figures", "--json")[1])
    word = json.loads(run("word", "agenda", "--json")[1])

    assert 20 == figures["messages"]
    assert {"ham": 10, "spam": 0} == word["views"]["words"]["messages"]


def test_a_profile_is_exported_and_imported(run, index, tmp_path):
    """The way of a profile to another machine, and what each step says."""
    run("learn", "--index", index)
    code, out, _ = run("export", tmp_path / "site.pbx")
    assert (code, "10 ham, 10 spam" in out) == (0, True)
    assert (tmp_path / "site.pbx").stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob("*.part"))

    code, out, _ = run("import", tmp_path / "site.pbx", "--profile", "copy")
    assert (code, "'copy' learned 10 ham, 10 spam" in out) == (0, True)
    code, out, _ = run("import", tmp_path / "site.pbx", "--profile", "copy")
    assert (code, "Nothing to do" in out) == (0, True)
    assert run("audit")[0] == 0


def test_an_export_goes_through_a_pipe(run, index):
    """Standard output has the export and nothing else; standard input takes it."""
    run("learn", "--index", index)
    command = [sys.executable, "-m", "app.doors.cli", "export", "-", "--with-ledger"]
    done = subprocess.run(
        command, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": ROOT}
    )
    assert done.stdout.startswith(b"POSTBAYES-EXPORT 1\n")
    assert b"revision 20" in done.stderr

    given = ("import", "-", "--profile", "copy", "--json")
    code, out, _ = run(*given, stdin=done.stdout)
    result = json.loads(out)
    assert (code, result["outcome"], result["rows"]) == (0, "added", 20)
    assert result["messages"] == {"ham": 10, "spam": 10}


def test_a_profile_is_replaced_only_if_somebody_says_so(run, index, tmp_path):
    """What is learned is not lost to a slip; without a terminal, --yes says it."""
    run("learn", "--index", index)
    run("export", tmp_path / "site.pbx")
    code, _, err = run("import", tmp_path / "site.pbx")
    assert (code, "count twice" in err) == (65, True)
    code, _, err = run("import", tmp_path / "site.pbx", "--replace")
    assert (code, "--yes" in err) == (65, True)
    code, out, _ = run("import", tmp_path / "site.pbx", "--replace", "--yes")
    assert (code, "forgot what it knew" in out) == (0, True)
    assert "revision 10 " in run("profiles")[1]


def test_what_is_no_export_changes_nothing(run, index, tmp_path):
    """A file cut short, another file, and none at all."""
    run("learn", "--index", index)
    run("export", tmp_path / "site.pbx")
    whole = (tmp_path / "site.pbx").read_bytes()
    (tmp_path / "cut.pbx").write_bytes(whole[:-1])
    for name, said in (
        ("cut.pbx", "cut short"),
        ("corpus/ham0", "not an export"),
        ("none", "cannot be read"),
    ):
        code, out, err = run("import", tmp_path / name, "--profile", "copy")
        assert (code, out, said in err) == (65, "", True)
    assert "copy" not in run("profiles")[1]


def contents(tmp_path):
    """Return all that the database holds."""
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as database:
        return list(database.iterdump())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["feedback", "--label", "junk", "new.eml"], "no label 'junk'"),
        (["feedback", "--label", "ham", "old.eml"], "learned too long ago"),
        (["feedback", "--forget", "--id", "OLD"], "learned too long ago"),
        (["undo", "OLD"], "row 1 of the ledger is too old"),
        (["undo", "--source", "ann"], "row 1 of the ledger is too old"),
        (["undo", "--source", "nobody"], "never taught by 'nobody'"),
        (["undo", "--source", "undo:7"], "never taught by 'undo:7'"),
        (["undo", "--from", "2026-05-02", "--until", "2026-05-01"], "ends before it"),
        (["undo", "--from", "yesterday"], "'yesterday' is not a time"),
        (["undo", "00ff"], "no message has the id '00ff'"),
        (["import", "cut.pbx"], "cut short"),
        (["import", "cut.pbx", "--replace", "--yes"], "cut short"),
        (["import", "other.pbx", "--profile", "copy"], "its header was changed"),
        (["import", "damaged.pbx", "--profile", "copy"], "block 1 of this export"),
        (["import", "strange.pbx", "--profile", "copy"], "is of feature set 99"),
        (["import", "strange.pbx", "--replace", "--yes"], "is of feature set 99"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(
    run, tmp_path, arguments, says
):
    """Not a byte of the database: neither what was learned nor a new profile."""
    (tmp_path / "old.eml").write_bytes(spam(1))
    (tmp_path / "new.eml").write_bytes(ham(1))
    told = run("feedback", "--label", "spam", "--source", "ann", "old.eml")[1]
    identity = re.search(r"id ([0-9a-f]{32})", told)[1]
    run("export", "site.pbx")
    whole = (tmp_path / "site.pbx").read_bytes()
    (tmp_path / "cut.pbx").write_bytes(whole[:300])
    changed = re.sub(rb'"feature_set": \d+', b'"feature_set": 99', whole)
    (tmp_path / "other.pbx").write_bytes(changed)
    at = whole.index(b"\n", 20) + 50
    flipped = bytes((whole[at] ^ 1,))
    (tmp_path / "damaged.pbx").write_bytes(whole[:at] + flipped + whole[at + 1 :])
    with (tmp_path / "strange.pbx").open("wb") as file:
        of_another = BlockWriter(file, changed.split(b"\n", 2)[1])
        of_another.close()
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as database, database:
        database.execute("UPDATE ledger SET vector = NULL, names = NULL")
    before = contents(tmp_path)
    code, out, err = run(*(identity if a == "OLD" else a for a in arguments))

    assert (65, "") == (code, out)
    assert says in err
    assert before == contents(tmp_path)


def test_an_export_that_cannot_be_written_says_so(run, tmp_path):
    """A folder that is not there; and no profile of that name."""
    code, _, err = run("export", tmp_path / "none" / "site.pbx")
    assert (code, "cannot be written" in err) == (65, True)
    code, _, err = run("export", "site.pbx", "--profile", "nobody")
    assert (code, "there is no profile 'nobody'" in err) == (65, True)


def test_a_dump_of_another_filter_is_imported_once(run):
    """The table says what carried over, and what could not."""
    dumps = Path(__file__).parent.parent / "golden" / "dumps"
    code, out, _ = run("import", dumps / "bogofilter.txt", "--from", "bogofilter")
    assert (code, "words of subjects" in out, "learned 1 ham, 1 spam" in out) == (
        0,
        True,
        True,
    )
    again = run("import", dumps / "bogofilter.txt", "--from", "bogofilter", "--json")[1]
    assert json.loads(again)["outcome"] == "unchanged"
    assert run("audit")[0] == 0
    # What was learned there speaks here.
    out = run("classify", "--explain", "50", dumps / "spam.eml")[1]
    assert "subject:free" in out


@pytest.mark.parametrize("program", ["spamassassin", "spambayes"])
def test_every_program_that_can_be_read_is_read(run, tmp_path, program):
    """SpamAssassin's words are looked for among those that are given."""
    dumps = Path(__file__).parent.parent / "golden" / "dumps"
    words = tmp_path / "words"
    words.write_text("prize money lunch agenda\n")
    file = {"spamassassin": "spamassassin.txt", "spambayes": "spambayes.csv"}[program]
    given = ["--words", words] if program == "spamassassin" else []
    code, out, err = run("import", dumps / file, "--from", program, *given)

    assert (0, "") == (code, err)
    assert "learned" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["spamassassin.txt", "--from", "spamassassin"], "--words"),
        (["rspamd.txt", "--from", "rspamd"], "Learn from the mail folders"),
        (["bogofilter.txt", "--from", "bogofilter", "--replace"], "--create"),
        (["bogofilter.txt", "--words", "x"], "--from"),
        (["bogofilter.txt", "--from", "bogofilter", "--spam-label", "x"], "no label"),
        (["bogofilter.txt", "--from", "bogofilter", "--profile", "x"], "no profile"),
        (["bogofilter.txt", "--from", "spambayes"], "first line"),
        (
            ["spamassassin.txt", "--from", "spamassassin", "--words", "none"],
            "cannot be read",
        ),
    ],
)
def test_a_dump_that_cannot_be_imported_says_why(run, arguments, said):
    """And what to do instead."""
    dumps = Path(__file__).parent.parent / "golden" / "dumps"
    code, _, err = run("import", dumps / arguments[0], *arguments[1:])

    assert (65, True) == (code, said in err)
    assert "revision 0 " in run("profiles")[1]


def test_a_database_is_backed_up_and_checked(run, index, tmp_path):
    """The copy is of a mode that keeps others out, and can be used as it is."""
    run("learn", "--index", index)
    code, out, _ = run("backup", "copy.db", "--audit")
    assert (code, "agree with their ledger" in out) == (0, True)
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600

    before = run("classify", "--json", index.parent / "ham0")[1]
    (tmp_path / "copy.db").replace(tmp_path / "postbayes.db")
    for log in tmp_path.glob("postbayes.db-*"):
        log.unlink()
    assert before == run("classify", "--json", index.parent / "ham0")[1]


def test_a_backup_of_what_does_not_add_up_says_so(run, index, tmp_path):
    """It is kept, since it is what there is, and the exit code tells."""
    run("learn", "--index", index)
    with sqlite3.connect(tmp_path / "postbayes.db") as database:
        database.execute("UPDATE class_count SET messages = messages + 1")
    code, out, _ = run("backup", "copy.db", "--audit")
    assert (code, "counts and ledger disagree in default" in out) == (1, True)
    code, out, _ = run("backup", "copy.db", "--json")
    assert (code, json.loads(out)["unsound"]) == (0, [])
    assert (tmp_path / "copy.db").exists()


def test_a_backup_that_has_no_place_changes_nothing(run, tmp_path):
    """A folder that is not there."""
    code, _, err = run("backup", tmp_path / "none" / "copy.db")
    assert (code, "cannot be written" in err) == (65, True)


def lines(out):
    """Return the lines of `policy` by their first word."""
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in out.splitlines()}


def test_a_policy_is_shown_changed_and_reset(run):
    """In log-odds and as a probability; what changed says what it was."""
    run("profiles")
    shown = lines(run("policy")[1])
    changed = lines(run("policy", "--ham-cost", "99", "--reject-from", "99.999%")[1])
    own = lines(run("policy", "--quarantine-from", "9")[1])
    document = json.loads(run("policy", "--json")[1])
    reset = lines(run("policy", "--reset")[1])

    assert "+2.197  90 %" == shown["spam_threshold"]
    assert "never" == shown["reject_from"]
    assert changed["ham_cost"].startswith("99 missed spam")
    assert changed["spam_threshold"].startswith("+4.595  99 % ")
    assert changed["spam_threshold"].endswith(" was +2.197  90 %")
    assert changed["reject_from"].startswith("+11.513  99.999 %")
    assert changed["reject_from"].endswith("was never")
    assert own["reject_from"].endswith("its own")
    assert {"ham_cost": 99.0, "quarantine_from": 9.0} == {
        name: document["policy"][name] for name in ("ham_cost", "quarantine_from")
    }
    assert 9.0 == document["quarantine_from"]["log_odds"]
    assert pytest.approx(0.99999) == document["reject_from"]["probability"]
    assert reset["spam_threshold"].endswith("was +4.595  99 %")
    assert shown == lines(run("policy")[1])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--reject-from", "1"], "reject_from is 1, below the spam threshold of 2.197"),
        (["--reject-from", "50%"], "reject_from is 0, below the spam threshold"),
        (["--reject-from", "often"], "--reject-from is log-odds in nats such as 6.9"),
        (["--quarantine-from", "100%"], "--quarantine-from is log-odds"),
        (["--ham-threshold", "never"], "--ham-threshold is log-odds"),
        (["--ham-threshold", "nan"], "--ham-threshold is log-odds"),
        (["--ham-cost", "90%"], "--ham-cost is a number of missed spam"),
        (["--ham-cost", "0.5"], "ham_cost is 0.5; it says how many missed spam"),
        (["--profile", "nowhere"], "no profile 'nowhere'"),
    ],
)
def test_a_policy_that_cannot_be_is_told(run, options, says):
    """With the code of bad input, and nothing is changed."""
    run("profiles")
    before = run("policy")
    code, out, err = run("policy", *options)

    assert (65, "") == (code, out)
    assert says in err
    assert before == run("policy")


def test_a_value_goes_back_to_the_settings(run, monkeypatch):
    """`never` is a choice of the profile, `default` is none."""
    run("profiles")
    monkeypatch.setenv("POSTBAYES_REJECT_FROM", "8")
    never = lines(run("policy", "--reject-from", "never")[1])
    back = lines(run("policy", "--reject-from", "default")[1])

    assert never["reject_from"].startswith("never")
    assert never["reject_from"].endswith("was +8.000  99.966 %")
    assert back["reject_from"].startswith("+8.000  99.966 %")
