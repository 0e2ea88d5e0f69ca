"""Page docs/reference/settings.md: the settings of an operator."""

from __future__ import annotations

from typing import Any, Final

from app.classifier.rule import VerdictRule
from app.settings import FILE, PREFIX, Settings
from scripts.reference.markdown import block, document, sentences, table

_INTRODUCTION: Final = """
Every setting is an environment variable, or a line of a file: `postbayes.env` in the
working directory, or the file that `POSTBAYES_SETTINGS_FILE` names. The command line
has priority over the environment, and the environment over the file. An invalid value
or a misspelt name stops the command with an error and exit code 78. On
SIGHUP, a running service reads [some settings](../operating.md#changing-settings)
again; the others need a restart.
"""


def page() -> str:
    """Return the page."""
    properties = Settings.model_json_schema()["properties"]
    overview = table(
        ("variable", "type", "default"),
        (
            (
                f"[`{variable(name)}`](#{variable(name).lower()})",
                kind(p),
                default(name, p),
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
        f"Type: {kind(p)}.\nDefault: {default(name, p)}."
        for name, p in properties.items()
    ]
    file = (
        f"## {FILE}\n\nA file of settings, read instead of `postbayes.env`.\nIt must "
        "exist.\nThis is the only variable that cannot be set in a file.\n\nType: "
        "path.\nDefault: not set."
    )
    return document(
        "Settings", sentences(_INTRODUCTION), example, overview, *parts, file
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
        return f"{name} from {low:g} to {high:g}"
    if low is not None:
        return f"{name}, {low:g} or more"
    if "exclusiveMinimum" in schema:
        return f"{name}, more than {schema['exclusiveMinimum']:g}"
    return name


def default(name: str, schema: dict[str, Any]) -> str:
    """Return the default of a setting as one would write it."""
    value = schema["default"]
    shipped = getattr(VerdictRule(), name, None)
    if value is None and shipped is not None:
        return f"not set, which means {shipped:.4g}"
    if value is None:
        return "not set"
    if isinstance(value, list | tuple):
        return f"`{','.join(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`"
