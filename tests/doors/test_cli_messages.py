"""What a command tells a person who has never seen the code."""

from __future__ import annotations

import gc
import importlib
import json
import logging
import re
import signal
import socket
from pathlib import Path

import pytest
import uvicorn
from uvicorn.supervisors import multiprocess
from uvicorn.supervisors.multiprocess import SIGNALS

from app.doors.cli import Complaints
from app.errors import DatabaseUnavailable
from app.services import learn as learning
from app.services.transfer import Transfer
from app.services.undo import Undo
from app.storage import undo_work
from tests.support.messages import HAM, ham, spam

DUMPS = Path(__file__).parent.parent / "golden" / "dumps"


@pytest.fixture
def starting(monkeypatch):
    """Let `serve` end where it would begin to serve, and leave the process as it was."""

    def serving(*_, **__):
        raise SystemExit(0)

    monkeypatch.setattr(uvicorn.Server, "startup", serving)
    monkeypatch.setattr(uvicorn.Config, "configure_logging", lambda _: None)
    module = importlib.import_module("app.doors.cli.serve")
    monkeypatch.setattr(module, "Multiprocess", serving)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setenv("POSTBAYES_PORT", "8025")
    monkeypatch.setenv("POSTBAYES_WORKERS", "1")
    yield
    gc.enable()


def test_what_is_forgotten_was_something(run):
    """Its label before stands there, and no word that says that nothing happened."""
    told = run("feedback", "--label", "ham", stdin=HAM[0])[1]
    identity = re.search(r"id ([0-9a-f]{32})", told)[1]
    out = run("feedback", "--forget", "--id", identity)[1]

    assert f"forgotten: was ham (id {identity}, revision 2)\n" == out


def test_an_undo_of_an_undo_names_it_and_no_rows(run):
    """It takes back rows of an undo, not feedback of people."""
    run("feedback", "--label", "spam", "--source", "ann", stdin=spam(1))
    run("undo", "--source", "ann")
    out = run("undo", "--source", "undo:1")[1]

    assert "default: took back undo:1" == out.splitlines()[0]


@pytest.mark.parametrize("url", ["nonsense", "127.0.0.1:8025", "ftp://127.0.0.1"])
def test_what_is_no_address_is_not_tried_again(run, url):
    """A mail server would keep a message in its queue for ever with 75."""
    code, _, err = run("classify", "--url", url, stdin=ham(1))

    assert (65, True) == (
        code,
        "is not the address of a service; write one like" in err,
    )


@pytest.mark.parametrize("option", ["--label", "--junk"])
def test_an_index_has_its_own_labels(run, index, option):
    """A label beside it would be ignored, and is refused."""
    code, _, err = run("learn", "--index", index, option, "ham")

    assert (65, True) == (code, "leave --label and --junk out" in err)
    assert "revision 0 " in run("profiles")[1]


def test_learning_that_ends_halfway_says_what_is_kept(run, index, monkeypatch):
    """The complaint is about one batch, and those before it are learned."""
    batches = []
    real = learning.append

    def failing(connection, profile, teachings):
        batches.append(teachings)
        if len(batches) == 3:
            msg = "The database is unavailable. Nothing was stored"
            raise DatabaseUnavailable(msg)
        return real(connection, profile, teachings)

    monkeypatch.setattr(learning, "append", failing)
    code, _, err = run("learn", "--index", index, "--batch", 4)

    kept, away = err.splitlines()
    assert 75 == code
    assert kept.startswith("postbayes: 8 messages learned before the error")
    assert away.startswith("postbayes: The database is unavailable")


def test_learning_tells_how_long_it_folded(run, index):
    """The rate is without it, so that the whole time can be added up."""
    out = run("learn", "--index", index)[1]
    assert re.search(r"folded into the counts in \d+\.\d s\.", out)
    again = json.loads(run("learn", "--index", index, "--json")[1])
    assert again["folding_seconds"] >= 0


def test_counts_that_were_imported_can_be_taken_back_as_it_says(run, index):
    """By the line that the import printed, of an export as of a dump."""
    run("learn", "--index", index)
    run("export", "site.pbx")
    run("profiles", "create", "dump")
    dump = DUMPS / "bogofilter.txt"
    for given in (
        ["site.pbx", "--profile", "copy"],
        [dump, "--from", "bogofilter", "--profile", "dump"],
    ):
        line = run("import", *given)[1].splitlines()[-1]
        told, _, command = line.partition(": postbayes ")
        code, out, _ = run(*command.split())

        assert "To take that back" == told
        assert (0, True) == (code, "messages of imports" in out)


def test_a_ledger_that_was_imported_is_taken_back_by_who_said_it(run, index):
    """It has no name of its own to undo it by, so none is told."""
    run("learn", "--index", index)
    run("export", "--with-ledger", "site.pbx")

    assert "undo" not in run("import", "site.pbx", "--profile", "copy")[1]


def test_a_dump_for_no_profile_says_how_to_make_one(run):
    """An export names its profile, a dump does not."""
    dump = DUMPS / "bogofilter.txt"
    code, _, err = run("import", dump, "--from", "bogofilter", "--profile", "old")

    assert 65 == code
    assert "postbayes profiles create old" in err


def test_a_dump_without_its_program_says_which_option_is_missing(run):
    """It is no export, and most likely what another filter wrote."""
    code, _, err = run("import", DUMPS / "bogofilter.txt")

    assert (65, True) == (code, "add --from PROGRAM" in err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit"],
        ["fold"],
        ["prune"],
        ["export", "x.pbx"],
        ["policy"],
        ["figures"],
        ["classify", "x.eml"],
    ],
)
def test_a_profile_that_is_missing_is_told_in_one_way(run, tmp_path, arguments):
    """Whatever asks for it, and with where to look."""
    (tmp_path / "x.eml").write_bytes(ham(1))
    code, _, err = run(*arguments, "--profile", "nobody")

    told = "there is no profile 'nobody'; `postbayes profiles` lists the profiles"
    assert (65, f"postbayes: {told}\n") == (code, err)


@pytest.mark.usefixtures("starting")
def test_a_port_that_is_taken_is_told_before_anything_is_loaded(run_anew, tmp_path):
    """With both ways to choose another, and the code that systemd sees."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run_anew("serve", "--port", port)

    assert 3 == code
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in err
    assert "--port" in err
    assert not (tmp_path / "postbayes.db").exists()


@pytest.mark.usefixtures("starting")
def test_what_is_no_name_of_a_host_is_told(run_anew):
    """Python cannot even encode a label of more than 63 letters, as of a path."""
    name = f"/{'x' * 64}"
    code, _, err = run_anew("serve", "--host", name)

    assert 3 == code
    assert f"cannot listen on {name}:8025: not the name of a host" in err


@pytest.fixture
def signals():
    """Give the signals back to whom they had."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("starting", "signals")
@pytest.mark.parametrize(
    ("stopped", "code", "told"), [(True, 0, ""), (False, 3, "was killed; start the")]
)
def test_the_process_that_starts_workers_may_be_gone(
    run, monkeypatch, stopped, code, told
):
    """A service manager stops all processes of a service at once, also while it starts."""

    def start(_):
        if stopped:
            signal.raise_signal(signal.SIGTERM)
        raise EOFError

    monkeypatch.setattr(multiprocess.Process, "start", start)
    found, _, err = run("serve", "--port", "0", "--workers", "2")

    assert (code, told in err, "question" in err) == (found, True, False)


def test_what_a_thread_warns_of_is_a_complaint_like_others(capsys):
    """One line with the name of the command, and no traceback."""
    error = ValueError("x")
    for sentence in ("upkeep waits", "closing failed\nTraceback"):
        record = logging.makeLogRecord(
            {"msg": sentence, "exc_info": (type(error), error, None)}
        )
        Complaints().handle(record)

    assert (
        "postbayes: upkeep waits\npostbayes: closing failed\n"
        == capsys.readouterr().err
    )


def test_a_command_takes_warnings_for_complaints(run, monkeypatch):
    """Else Python would write them as they are, with their traceback."""
    monkeypatch.setattr(logging, "lastResort", None)
    run("profiles")

    assert isinstance(logging.lastResort, Complaints)
    assert logging.WARNING == logging.lastResort.level


def test_an_interrupted_backup_leaves_no_file(run, index, tmp_path, monkeypatch):
    """Neither the copy nor the log that SQLite keeps beside it while it is audited."""
    run("learn", "--index", index)
    module = importlib.import_module("app.services.upkeep")

    def interrupted(connection, row):
        connection.exec_driver_sql("SELECT count(*) FROM ledger").scalar()
        raise KeyboardInterrupt

    monkeypatch.setattr(module.folding, "audit", interrupted)
    code, _, err = run("backup", "copy.db", "--audit")

    assert (130, True) == (code, "nothing was backed up" in err)
    assert [] == sorted(tmp_path.glob("copy.db*"))


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POSTBAYES_ALIASES", "nowhere"),
        ("POSTBAYES_AUTOLEARN_FROM", "0"),
        ("POSTBAYES_SPAM_HEADER", "x"),
        ("POSTBAYES_MILTER", "nonsense"),
        ("POSTBAYES_KEYLESS_FROM", "everybody"),
        ("POSTBAYES_REJECT_FROM", "1"),
    ],
)
@pytest.mark.usefixtures("starting")
def test_what_a_service_cannot_start_with_is_told_once(
    run, monkeypatch, name, value, workers
):
    """In a sentence, by the process that was called: a worker is started again."""
    monkeypatch.setenv(name, value)
    code, _, err = run("serve", "--port", "0", "--workers", workers)

    assert 78 == code
    assert err.splitlines()[-1].startswith("postbayes: POSTBAYES_")
    assert name in err


def failing(*_, **__):
    """Fail as whatever is written to a full disk."""
    msg = "The database is unavailable: full. Nothing was stored; try again later."
    raise DatabaseUnavailable(msg)


def test_an_undo_that_stops_halfway_says_that_it_is_decided(run, monkeypatch):
    """Of its last step nothing was stored, but the rest is done without being asked."""
    run("feedback", "--label", "spam", "--source", "ann", stdin=spam(1))

    with monkeypatch.context() as patched:
        patched.setattr(undo_work, "step", failing)
        code, _, err = run("undo", "--source", "ann")
    again = run("undo", "--source", "ann")

    assert 75 == code
    assert "undo:1 is recorded but not finished" in err
    assert (0, True) == (again[0], "taken back already" in again[1])
    assert "revision 2 " in run("profiles")[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["import", "--from", "bogo", "x"], "'bogo' is not one of 'bogofilter',"),
        (["evaluate", "--folds", "x"], "'x' is not a whole number."),
        (["evaluate", "--folds", "1.5"], "'1.5' is not a whole number."),
        (["evaluate", "--folds", "1"], "1 is too small: 2 or more."),
        (["evaluate", "--train-first", "0"], "0 is too small: 1 or more."),
        (["evaluate", "--delay", "-1"], "-1 is too small: 1 or more."),
        (["evaluate", "--feedback-first", "0"], "0 is too small: 1 or more."),
        (["figures", "--window", "100001"], "100001 is too large: 100000 or less."),
        (
            ["evaluate", "--shuffle", "9" * 5000],
            "the number has too many digits.",
        ),
        (["prune", "--max-log-odds", "x"], "'x' is not a number."),
        (["prune", "--max-log-odds", "nan"], "'nan' is not a number."),
    ],
)
def test_a_value_that_cannot_be_is_told_in_our_words(run, arguments, says):
    """Not in those of the library that reads it, of inputs and strings."""
    code, out, err = run(*arguments)

    assert (2, "") == (code, out)
    assert f"postbayes: invalid value for '{arguments[1]}': {says}" in err
    assert "Value error" not in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["figures", "--nope"],
            "no such option: --nope. See `postbayes figures --help`.",
        ),
        (["nope"], "no such command 'nope'. See `postbayes --help`."),
        (
            ["follow"],
            "no such command 'follow'. Did you mean 'fold'? See `postbayes --help`.",
        ),
        (
            ["evaluate", "--jsonl"],
            "option '--jsonl' requires an argument. See `postbayes evaluate --help`.",
        ),
        (["why"], "missing argument 'ID'. See `postbayes why --help`."),
    ],
)
def test_a_wrong_command_line_is_told_in_one_sentence(run, arguments, says):
    """As everything else is, and without a box."""
    assert (2, "", f"postbayes: {says}\n") == run(*arguments)


def test_no_number_of_the_system_is_shown(run, monkeypatch, tmp_path):
    """It does not help people; the sentence is enough."""
    monkeypatch.setenv("POSTBAYES_ALIASES", str(tmp_path))
    monkeypatch.setenv("POSTBAYES_IMAP_HOST", "localhost")
    monkeypatch.setenv("POSTBAYES_IMAP_USER", "ann")
    monkeypatch.setenv("POSTBAYES_IMAP_PASSWORD_FILE", str(tmp_path / "none"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        told = [
            run("figures")[2],
            run("imap", "--once")[2],
            run("classify", "--url", url, stdin=ham(1))[2],
        ]

    assert "Is a directory" in told[0]
    assert "No such file or directory" in told[1]
    assert "Connection refused" in told[2]
    assert [] == [each for each in told if "Errno" in each]


# As of numba, if there is no memory for its library.
UNLOADED = OSError("Could not find/load shared object file")
UNLOADED.__context__ = OSError("libLLVM.so: failed to map segment from shared object")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't start new thread"), UNLOADED]
)
def test_a_lack_of_memory_is_no_defect(run, index, monkeypatch, error):
    """A mail server tries again later, and nobody reports a traceback."""

    def lacking(*_, **__):
        raise error

    monkeypatch.setattr(learning.Learn, "batches", lacking)
    code, _, err = run("learn", "--index", index)

    assert 75 == code
    assert err.startswith("postbayes: there is not enough memory")
    assert "Traceback" not in err


def test_an_empty_password_file_is_refused(run, monkeypatch, tmp_path):
    """A server would say that the password is wrong, and might lock the account."""
    (tmp_path / "secret").write_text("\n")
    monkeypatch.setenv("POSTBAYES_IMAP_HOST", "localhost")
    monkeypatch.setenv("POSTBAYES_IMAP_USER", "ann")
    monkeypatch.setenv("POSTBAYES_IMAP_PASSWORD_FILE", str(tmp_path / "secret"))
    code, _, err = run("imap", "--once")

    assert (78, True) == (code, "is empty; write the password in it" in err)


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("PORT", "abc", "POSTBAYES_PORT should be a valid integer, got 'abc'"),
        ("PORT", "70000", "POSTBAYES_PORT should be less than or equal to 65535, got"),
        ("LOG_LEVEL", "loud", "POSTBAYES_LOG_LEVEL should be 'debug', 'info', 'warn"),
        ("PROFILE", "", "POSTBAYES_PROFILE: the name of a profile must have 1 to 128"),
        ("TEXT_VIEWS", "word", "POSTBAYES_TEXT_VIEWS: the text views can be words, "),
        ("REJECT_FROM", "x", "POSTBAYES_REJECT_FROM: write log-odds in nats such as"),
    ],
)
def test_a_wrong_setting_is_named(run, monkeypatch, variable, value, sentence):
    """Whoever finds the mistake, in words for people who do not program."""
    monkeypatch.setenv(f"POSTBAYES_{variable}", value)
    code, _, err = run("policy")

    assert 78 == code
    assert err.startswith(f"postbayes: {sentence}")


@pytest.mark.parametrize("value", ["1e308", "nan", "-5", "100%", "x", "1001"])
def test_settings_and_profiles_refuse_the_same_thresholds(run, monkeypatch, value):
    """A threshold that no message can reach must be a mistake."""
    code, _, _ = run("policy", "--reject-from", value)
    monkeypatch.setenv("POSTBAYES_REJECT_FROM", value)

    assert (65, 78) == (code, run("policy")[0])


@pytest.mark.parametrize("value", ["7", "99.9%", "99.9 %", "never", "1000"])
def test_settings_and_profiles_take_the_same_thresholds(run, monkeypatch, value):
    """In nats or as a probability."""
    changed = run("policy", "--reject-from", value, "--json")[1]
    run("policy", "--reset")
    monkeypatch.setenv("POSTBAYES_REJECT_FROM", value)
    of_settings = run("policy", "--json")[1]

    assert changed
    assert json.loads(changed)["reject_from"] == json.loads(of_settings)["reject_from"]


def test_an_undo_that_is_interrupted_early_does_not_promise_anything(run, monkeypatch):
    """While it is planned, it is not decided."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    run("feedback", "--label", "spam", "--source", "ann", stdin=spam(1))
    monkeypatch.setattr(Undo, "begin", interrupted)
    code, _, err = run("undo", "--source", "ann")

    assert (130, True) == (code, "may have been recorded" in err)


def test_an_import_that_is_not_folded_says_that_it_is_there(run, index, monkeypatch):
    """The complaint is about the fold, which a service does."""
    run("learn", "--index", index)
    run("export", "site.pbx")
    with monkeypatch.context() as patched:
        patched.setattr(Transfer, "fold", failing)
        code, _, err = run("import", "site.pbx", "--profile", "copy")

    kept, away = err.splitlines()
    assert 75 == code
    assert kept.startswith("postbayes: site.pbx is imported, but the counts")
    assert away.startswith("postbayes: The database is unavailable")
    assert "'copy'" in run("import", "site.pbx", "--profile", "copy")[1]


def test_counts_of_a_profile_that_has_them_are_refused_with_what_helps(run, index):
    """A ledger would count them twice as well, where there are counts alone."""
    run("learn", "--index", index)
    run("export", "before.pbx")
    run("import", "before.pbx", "--profile", "copy")
    run("feedback", "--label", "ham", stdin=ham(50))
    run("export", "after.pbx")
    code, _, err = run("import", "after.pbx", "--profile", "copy")

    assert 65 == code
    assert "Use --replace to return to the export" in err
    assert "if this profile has its whole ledger" in err


def test_an_undo_of_much_is_confirmed_by_what_its_dry_run_prints(run):
    """Without it the command ends with 65 and changes nothing."""
    for n in range(21):
        run("feedback", "--label", "spam", "--source", "ann", stdin=spam(n))
    code, _, err = run("undo", "--source", "ann")
    shown = run("undo", "--source", "ann", "--dry-run")[1]
    token = re.search(r"--confirm (\S+)", shown)[1]
    out = run("undo", "--source", "ann", "--confirm", token)[1]

    assert 65 == code
    assert "would take back 21 messages" in err
    assert "default: took back 21 rows of the ledger" == out.splitlines()[0]
