"""Page docs/reference/settings.md: the settings of an operator."""

from __future__ import annotations

from typing import Any, Final

from app.settings import FILE, MEBIBYTE, PREFIX, Settings
from scripts.reference.markdown import block, document, sentences, table

_INTRODUCTION: Final = """
Every setting is an environment variable, or a line of a file: `postbayes.env` in the
working directory, or the file that `POSTBAYES_SETTINGS_FILE` names. The command line
has priority over the environment, and the environment over the file. If two lines of
the file set the same name, the last one counts. A misspelt name stops every command
with an error and exit code 78, and an invalid value those that use it. On SIGHUP, a
running service reads [some settings](../operating.md#changing-settings) again; the
others need a restart.
"""

_OF_OTHERS: Final = (
    (
        "`POSTBAYES_API_KEY`",
        "commands that use a service (`--url`, `forwarded`, `imap`), `postbayes-teach`",
        "the key that they send",
    ),
    (
        "`POSTBAYES_URL`",
        "`postbayes-teach`, `postbayes-mark`",
        "the address of the service; `http://127.0.0.1:8025` if not set",
    ),
    (
        "`POSTBAYES_QUEUE`",
        "`postbayes-teach`",
        "the folder of messages that wait for the service; `~/.postbayes` if not set",
    ),
    (
        "`POSTBAYES_PUBLISH`, with `_SMTP`, `_IMAP`, `_PROMETHEUS`, `_GRAFANA`; "
        "`POSTBAYES_MEMORY`",
        "`docker-compose.yml`",
        "the addresses to publish, and the memory limit of the service",
    ),
)


def page() -> str:
    """Return the page."""
    properties = Settings.model_json_schema()["properties"]
    overview = table(
        ("variable", "meaning", "default"),
        (
            (
                f"[`{variable(name)}`](#{variable(name).lower()})",
                sentences(p["description"]).partition("\n")[0],
                default(p),
            )
            for name, p in properties.items()
        ),
    )
    example = block(
        "sh",
        "# postbayes.env\n"
        "POSTBAYES_DATABASE_URL=sqlite:////var/lib/postbayes/postbayes.db\n"
        "POSTBAYES_PORT=8025",
    )
    parts = [
        f"## {variable(name)}\n\n{sentences(p['description'])}\n\n"
        f"Type: {kind(p)}.\nDefault: {default(p)}."
        for name, p in properties.items()
    ]
    file = (
        f"## {FILE}\n\nA file of settings, read instead of `postbayes.env`.\nIt must "
        "exist.\nThis is the only variable that cannot be set in a file.\n\nType: "
        "path.\nDefault: not set."
    )
    others = (
        "## Variables of other programs\n\nSet these in the environment of the "
        "program that reads them; a settings file does not pass them on.\n\n"
        + table(("variable", "read by", "meaning"), _OF_OTHERS)
    )
    return document(
        "Settings", sentences(_INTRODUCTION), example, overview, *parts, file, others
    )


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def kind(schema: dict[str, Any]) -> str:
    """Return in words which values a setting takes."""
    if "anyOf" in schema:
        (only,) = (each for each in schema["anyOf"] if each["type"] != "null")
        return kind(only)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    name = {
        "string": "path" if schema.get("format") == "path" else "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "`true` or `false`",
        "array": "words, separated by commas",
    }[schema["type"]]
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{name} from {low:,} to {high:,}"
    if low is not None:
        return f"{name}, {low:,} or more"
    if "exclusiveMinimum" in schema:
        return f"{name}, more than {schema['exclusiveMinimum']:g}"
    return name


def default(schema: dict[str, Any]) -> str:
    """Return the default of a setting as one would write it."""
    value = schema["default"]
    if value is None:
        return "not set"
    if isinstance(value, list | tuple):
        return f"`{','.join(value)}`" if value else "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    if isinstance(value, int) and value >= MEBIBYTE:
        return f"`{value}` ({value // MEBIBYTE:,} MiB)"
    return f"`{value}`"
