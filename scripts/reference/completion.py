"""Files deploy/completions: what a shell completes, without starting Python.

Contract of this file: the words are those of the commands when the files were written.
A completion by the program itself would import a command at each press of the key,
which takes a second for `serve`.
"""

from __future__ import annotations

import shlex
from typing import Any, Final

from app.doors.cli.main import COMMANDS, GROUPS, load, summary
from scripts.reference.commands import runnable

_NOTICE: Final = "# Written by `python scripts/reference` from the code."


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]


def bash() -> str:
    """Return the completion for bash; zsh reads it with `bashcompinit`."""
    cases = []
    for name in COMMANDS:
        for words, command in runnable(name).items():
            pattern = f"'{words}'" if name in GROUPS else f"'{name} '*"
            cases.append(f"{pattern}) words={shlex.quote(' '.join(_words(command)))}")
        if name in GROUPS:
            actions = shlex.quote(" ".join(load(name).commands))
            cases.append(f"'{name} '*) actions={actions}")
    first = shlex.quote(" ".join((*COMMANDS, "--help", "--version")))
    return "\n".join(
        (
            _NOTICE,
            "_postbayes() {",
            "    local current=${COMP_WORDS[COMP_CWORD]} words=--help actions=",
            "    COMPREPLY=()",
            "    case ${COMP_WORDS[*]:1:2} in",
            *(f"        {case} ;;" for case in cases),
            "    esac",
            "    if ((COMP_CWORD == 1)); then",
            f"        words={first}",
            "    elif [[ $current != -* ]]; then",
            "        # Without actions, files, by `-o default`.",
            "        words=$actions",
            "    fi",
            '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            "complete -o default -F _postbayes postbayes",
            "",
        )
    )


def _words(command: Any) -> list[str]:
    return [*(name for each in _options(command) for name in each.opts), "--help"]


def fish() -> str:
    """Return the completion for fish, which shows what each word means."""
    lines = [
        _NOTICE,
        *(
            "complete -c postbayes -n __fish_use_subcommand -f "
            f"-a {name} -d {shlex.quote(summary(name))}"
            for name in COMMANDS
        ),
    ]
    for name in COMMANDS:
        seen = f"__fish_seen_subcommand_from {name}"
        # In `lists import`, the word is no command.
        groups = " ".join(group for group in GROUPS if name in load(group).commands)
        if groups:
            seen += f"; and not __fish_seen_subcommand_from {groups}"
        for words, command in runnable(name).items():
            after = seen
            if name in GROUPS:
                action = words.split()[1]
                after += f"; and __fish_seen_subcommand_from {action}"
                others = " ".join(load(name).commands)
                lines.append(
                    f"complete -c postbayes -n '{seen}; "
                    f"and not __fish_seen_subcommand_from {others}' -f "
                    f"-a {action} -d {shlex.quote(command.get_short_help_str(80))}"
                )
            for each in _options(command):
                value = "" if each.is_flag else " -r"
                lines.append(
                    f"complete -c postbayes -n '{after}'"
                    f" -l {each.opts[0].removeprefix('--')}{value}"
                    f" -d {shlex.quote(' '.join(each.help.split()))}"
                )
    return "\n".join((*lines, ""))
