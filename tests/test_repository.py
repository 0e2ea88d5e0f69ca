"""What the files at the top of the repository promise, they keep."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from app import __version__

ROOT = Path(__file__).parent.parent
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("[a-z]*/**/*.md"))]

# A pinned requirement, perhaps with a marker, and its continuation.
PINNED = re.compile(r"[a-z0-9][a-z0-9._-]*(\[[a-z,]+\])?==\S+( ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
# What a Makefile can be asked for: a name at the start of a line.
TARGET = re.compile(r"^([a-z][a-z-]*):(?!=)", re.MULTILINE)
ASKED = re.compile(r"(?:^|`|&& ) *make ([a-z][a-z-]*)", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)[^)]*\)")
# A block of commands in a document.
SHELL = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"\bpostbayes (?!postbayes\b|python\b)([a-z]+)\b")


def text(name):
    """Return the content of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def named(path):
    """Return a path as the repository's own, for test ids."""
    return path.relative_to(ROOT).as_posix()


def test_the_changelog_has_this_version():
    """An operator finds what this version changed, and what is to come."""
    headings = re.findall(r"^## \[(.+?)\]", text("CHANGELOG.md"), re.MULTILINE)

    assert "Unreleased" == headings[0]
    assert __version__ in headings


def test_the_licence_is_the_one_that_is_declared():
    """The full text stands beside the SPDX name."""
    project = tomllib.loads(text("pyproject.toml"))["project"]

    assert "Apache-2.0" == project["license"]
    assert re.match(r"\s+Apache License\s+Version 2\.0, January 2004", text("LICENSE"))
    assert "END OF TERMS AND CONDITIONS" in text("LICENSE")


def test_there_are_requirements_to_run_and_to_develop():
    """Both environments are locked."""
    assert ["dev.txt", "run.txt"] == [path.name for path in REQUIREMENTS]


@pytest.mark.parametrize("path", REQUIREMENTS, ids=named)
def test_requirements_are_pinned_with_hashes_and_name_no_place(path):
    """Each line is a version or a hash: no index, no host, no file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    strange = [
        line for line in lines if not (PINNED.fullmatch(line) or HASH.fullmatch(line))
    ]

    assert [] == strange
    assert all(
        HASH.fullmatch(after)
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if line.endswith("\\")
    )


def test_what_is_needed_to_run_has_one_version_everywhere():
    """Tests run with the versions that are served."""
    run, dev = (
        set(re.findall(r"^(\S+==\S+)", text(f"requirements/{name}.txt"), re.MULTILINE))
        for name in ("run", "dev")
    )

    assert run
    assert run <= dev


def test_every_dependency_is_locked():
    """What pyproject.toml asks for is in the requirements; neither traces nor clusters are in the image."""
    pyproject = tomllib.loads(text("pyproject.toml"))
    project, groups = pyproject["project"], pyproject["dependency-groups"]
    extras = project["optional-dependencies"]
    develop = extras.pop("tracing") + extras.pop("cluster")
    extra = [each for names in extras.values() for each in names]
    needed = {
        "run": [*project["dependencies"], *extra, *groups["build"]],
        "dev": [*develop, *(each for group in groups.values() for each in group)],
    }
    for name, asked in needed.items():
        locked = set(
            re.findall(
                r"^([^\s[=]+)\S*==", text(f"requirements/{name}.txt"), re.MULTILINE
            )
        )
        names = {re.match(r"[A-Za-z0-9._-]+", each)[0].lower() for each in asked}

        assert names
        assert names <= locked


def test_what_is_imported_is_declared():
    """Not only what happens to be installed with something else, and nothing more."""
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    asked = [
        *project["dependencies"],
        *extras["postgres"],
        *extras["oidc"],
        *extras["cluster"],
    ]
    declared = {re.match(r"[a-z0-9-]+", each)[0] for each in asked}
    imported = {
        name.partition(".")[0]
        for path in (ROOT / "app").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in modules(node)
    }
    # A namespace of many distributions, of which the extra asks for two.
    imported -= {"opentelemetry"}
    # The standard library has the one from Python 3.14 on, and the other is for those
    # before it.
    imported -= {"compression", "backports"}
    provided_by = packages_distributions()
    needed = {
        re.sub(r"[._-]+", "-", distribution.lower())
        for name in imported - sys.stdlib_module_names - {"app"}
        for distribution in provided_by[name]
    }

    # uvicorn is told the names of two.
    assert needed | {"backports-zstd", "httptools", "uvloop"} == declared


def modules(node):
    """Return the modules that a statement imports from outside its own package."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module]
    return []


def test_documents_name_only_targets_that_exist():
    """`make x` in a document is a target of the Makefile."""
    targets = set(TARGET.findall(text("Makefile")))
    asked = {
        target
        for path in DOCUMENTS
        for code in CODE.findall(path.read_text(encoding="utf-8"))
        for target in ASKED.findall(code)
    }

    assert {"run", "test", "check", "accuracy", "speed", "docs", "lock"} <= targets
    assert {"run", "test", "check"} <= asked
    assert asked <= targets


def test_every_target_that_makes_no_file_is_phony():
    """A file that happens to be named `test` does not stop the tests."""
    makefile = text("Makefile")
    phony = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split()

    assert sorted(set(TARGET.findall(makefile))) == sorted(phony)


def test_documents_name_only_commands_that_exist():
    """`postbayes x` in a document is a command of the console script."""
    script = Path(sys.executable).with_name("postbayes")
    printed = subprocess.run(
        [script, "--help"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
    ).stdout
    used = {
        command
        for path in DOCUMENTS
        for block in SHELL.findall(path.read_text(encoding="utf-8"))
        for line in block.splitlines()
        if not line.lstrip().startswith(("#", "docker build", "docker compose"))
        for command in COMMAND.findall(line)
    }

    assert used
    assert used <= set(re.findall(r"^\W*([a-z]+)\s", printed, re.MULTILINE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_links_between_documents_lead_somewhere(path):
    """A relative link names a file or folder that is there."""
    prose = CODE.sub("", path.read_text(encoding="utf-8"))
    broken = [
        target for target in LINK.findall(prose) if not (path.parent / target).exists()
    ]

    assert [] == broken


def test_the_image_gets_what_the_build_copies():
    """What the Dockerfile copies from the context is let in by .dockerignore."""
    allowed = re.findall(r"^!(\S+)$", text(".dockerignore"), re.MULTILINE)
    copied = [
        source
        for line in re.findall(r"^COPY (?!--)(.+)$", text("Dockerfile"), re.MULTILINE)
        for source in line.split()[:-1]
    ]

    assert sorted(allowed) == sorted(copied)
    assert all((ROOT / name).exists() for name in copied)


def test_the_mail_image_gets_what_it_copies():
    """Its context is the folder deploy; what is copied is there."""
    copied = [
        source
        for line in re.findall(
            r"^COPY (.+)$", text("deploy/mail/Dockerfile"), re.MULTILINE
        )
        for source in line.split()[:-1]
    ]

    assert {"dovecot", "postfix/main.cf"} < set(copied)
    assert all((ROOT / "deploy" / name).exists() for name in copied)


def test_the_containers_are_published_on_loopback_only():
    """Nobody else reaches a service without a password by accident."""
    compose = text("docker-compose.yml")
    published = re.findall(r"ports:\n((?:\s+- .+\n)+)", compose)
    ports = [line.strip() for lines in published for line in lines.splitlines()]

    assert [
        "- ${POSTBAYES_PUBLISH:-127.0.0.1:8025}:8025",
        "- ${POSTBAYES_PUBLISH_SMTP:-127.0.0.1:2525}:25",
        "- ${POSTBAYES_PUBLISH_IMAP:-127.0.0.1:1143}:143",
        "- ${POSTBAYES_PUBLISH_PROMETHEUS:-127.0.0.1:9090}:9090",
        "- ${POSTBAYES_PUBLISH_GRAFANA:-127.0.0.1:3000}:3000",
    ] == ports


def test_ci_runs_what_contributors_run():
    """CI is `make check` with PostgreSQL, and may not skip."""
    script = text(".ci/run")

    assert re.search(r"^make (--[a-z-]+(=\d)? )*check\b", script, re.MULTILINE)
    assert "export POSTBAYES_REQUIRE_POSTGRES=1 POSTBAYES_REQUIRE_CLIENTS=1" in script
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_an_audit_that_could_ask_nobody_fails():
    """Without `--strict` it says that no flaw is known of what it did not look up."""
    recipe = text("Makefile").split("\naudit:")[1].split("\n\n")[0]

    assert "pip-audit --strict " in recipe
    assert "make audit" in text(".ci/run")


def test_each_container_is_limited_and_none_has_a_password_that_everybody_knows():
    """Memory and processes; and images of one release series, not `latest`."""
    compose = text("docker-compose.yml")
    services = compose.split("\nservices:\n")[1].split("\nnetworks:\n")[0]
    each = re.findall(r"^  \w+:\n(?:(?:    .*)?\n)+", services, re.MULTILINE)
    images = [
        *re.findall(r"image: (\S+:\S+)", compose),
        *re.findall(r"^FROM (\S+)", text("Dockerfile"), re.MULTILINE),
        *re.findall(r"^ARG BASE=(\S+)", text("deploy/mail/Dockerfile"), re.MULTILINE),
    ]

    assert 5 == len(each)
    for service in each:
        for limit in ("mem_limit:", "pids_limit:", "networks:"):
            assert limit in service, service
    assert not re.search(r"PASSWORD:-", compose)
    assert "  database:\n    internal: true\n" in compose
    assert images
    assert [] == [image for image in images if not re.search(r":v?\d+", image)]


def test_the_changelog_of_what_comes_is_short():
    """An operator reads it before the first start."""
    coming = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]

    assert len(coming.split()) < 900
