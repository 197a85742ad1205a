"""A reference page of the program, from the declared commands and options."""

from __future__ import annotations

import inspect

import click

from onsketch.cli import app

PAGE = "reference/command_line.md"


def pages() -> dict[str, str]:
    """Return the page by its path."""
    root = click.Context(app, info_name="onsketch")
    lines = [
        "# Command line",
        "",
        "Every command and option of the program. [The guide](../howto/command_line.md) shows how to use them.",
        "",
    ]
    for name in app.list_commands(root):
        command = app.get_command(root, name)
        if command is not None:
            lines += _section(command, click.Context(command, root, info_name=name))
    return {PAGE: "\n".join(lines) + "\n"}


def _section(command: click.Command, context: click.Context) -> list[str]:
    """Return heading, usage, description and options of a command, and of the commands within it."""
    text, _, examples = inspect.cleandoc(command.help or "").replace("\b", "").partition("Examples:")
    lines = [f"## {context.command_path}", "", *text.strip().splitlines(), ""]
    if examples:
        lines += ["```sh", *(line.strip() for line in examples.strip().splitlines()), "```", ""]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                lines += _section(inner, click.Context(inner, context, info_name=name))
        return lines
    lines += [f"Usage: `{' '.join([context.command_path, *command.collect_usage_pieces(context)])}`", ""]
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            panels.setdefault(getattr(parameter, "panel", "Options"), []).append(record)
    for panel, records in panels.items():
        lines += [f"**{panel}**", "", "| option | meaning |", "|---|---|"]
        lines += [f"| `{_cell(option)}` | {_cell(meaning)} |" for option, meaning in records]
        lines.append("")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
