"""``onsketch serve``: a model that learns while it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from onsketch.cli.console import errors_in_one_line
from onsketch.cli.declaring import FOLDER, Option, command, refuse
from onsketch.cli.options import known_method, learner_options, learning, reading

_WITHOUT = (
    "format", "label", "weight", "tag", "ignore", "categorical", "delimiter", "header", "names", "zero_based",
    "missing", "on_error", "block_rows", "keep", "describe", "cubic", "decimal",
    "max_line_bytes", "max_unpack_bytes", "max_products",
)  # fmt: skip
"""Options of reading that concern files."""


def _known(ctx: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    return None if name is None else known_method(name)


def _one(switches: str, field: str, sentence: str, default: Any = None, *, group: str = "wish", **more: Any) -> Option:
    """Create an option whose value is a field of the record ``group``: Wish, Settings or Limits."""
    panels = {"settings": "Durability", "limits": "Limits"}
    given = {"panel": panels.get(group, "Options"), **more}
    return Option([*switches.split(), field], help=sentence, default=default, group=group, **given)


def _flag(switch: str, field: str, sentence: str, **more: Any) -> Option:
    return _one(switch, field, sentence, is_flag=True, show_default=False, **more)


_PORT, _NETWORK, _COUNT, _SECONDS = click.IntRange(0, 65535), "Network", click.IntRange(1), click.FloatRange(0.0)
_SERVED = (
    _one("--learner -l", "method", "The method of an empty model.", "auto", metavar="NAME", callback=_known),
    _one("--task", "task", "binary, multiclass or regression.", show_default="binary"),
    _one("--log", "log", "Keep the learned rows here; a restart continues with them.", type=FOLDER, metavar="FOLDER"),
    _one("--shadow", "shadow", "A second model that learns the same rows without answering.", type=FOLDER,
         metavar="MODEL"),
    _one("--shadow-learner", "shadow_method", "The same, empty, with this method.", metavar="NAME", callback=_known),
    _one("--consume", "consume", "Also learn a live stream: redis://… or kafka://….", metavar="ADDRESS"),
    _one("--host", "host", "The address to listen on.", "127.0.0.1", panel=_NETWORK),
    _one("--port", "port", "0 for any free one.", 8000, type=_PORT, panel=_NETWORK),
    _one("--vw-port", "vw_port", "Vowpal Wabbit's daemon protocol.", type=_PORT, panel=_NETWORK),
    _one("--tokens", "tokens", "File with lines 'read TOKEN' and 'learn TOKEN'.", type=FOLDER, panel=_NETWORK),
    _flag("--insecure", "insecure", "Listen for other machines without tokens.", panel=_NETWORK),
    _one("--tls-cert", "tls_cert", "Certificate (PEM).", type=FOLDER, panel=_NETWORK),
    _one("--tls-key", "tls_key", "Its key (PEM).", type=FOLDER, panel=_NETWORK),
    _flag("--keep-log", "keep_log", "Keep the log before snapshots in FOLDER/archive.", panel="Durability"),
    _flag("--cut-damaged", "cut_damaged", "Continue from a damaged log, without the rows after the damage.",
          panel="Durability"),
    _one("--durability", "durability", "none, batch (one fsync for all waiting requests) or row.", "batch",
         group="settings"),
    _one("--commit-delay", "delay", "Milliseconds to gather rows before an fsync.", 0.0, type=_SECONDS,
         callback=lambda context, option, value: value / 1000.0, group="settings"),
    _one("--snapshot-every", "snapshot_rows", "Write a snapshot and cut the log.", 100_000, type=_COUNT,
         metavar="ROWS", group="settings"),
    _one("--queue", "queue_rows", "Rows that may wait; more get 503.", 100_000, type=_COUNT, metavar="ROWS",
         group="settings", panel="Limits"),
    _one("--max-body", "body", "Bytes of a request.", 16 << 20, type=_COUNT, group="limits"),
    _one("--max-rows", "rows", "Rows of a request.", 10_000, type=_COUNT, group="limits"),
    _one("--max-features", "features", "Features of a row.", 10_000, type=_COUNT, group="limits"),
    _one("--max-waiting", "waiting", "Rows that may wait for labels.", 100_000, type=_COUNT, group="limits"),
    _one("--label-timeout", "label_seconds", "Seconds that a row waits for its label.", 3600.0, type=_SECONDS,
         group="limits"),
    _one("--header-timeout", "header_seconds", "Seconds for the head of a request.", 10.0, type=click.FloatRange(0.1),
         group="limits"),
)  # fmt: skip
"""The options of the service, each with the field that takes its value."""


@command(shared=(*_SERVED, *learning(), *reading(_WITHOUT)))
@click.argument(
    "model",
    type=FOLDER,
    required=False,
    metavar="[MODEL]",
    help="A file that 'onsketch train --save' wrote; none: empty.",
)
def serve(
    model: Path | None, wish: dict[str, Any], settings: dict[str, Any], limits: dict[str, Any],
    learning: dict[str, Any], reading: dict[str, Any],
) -> None:  # fmt: skip
    """Serve a model over HTTP that learns while it predicts.

    Predict now, learn when the label arrives. With --log every acknowledged row survives a crash.

    \b
    Examples:
      onsketch serve --learner auto --task binary --log clicks.log
      onsketch serve clicks.model --log clicks.log --port 8080
      curl localhost:8000/learn -d '{"features": {"age": 31, "colour": "red"}, "label": 1}'
      curl localhost:8000/predict -d '{"features": {"age": 31}}'
    """  # noqa: D301
    with errors_in_one_line():
        try:
            from onsketch.jobs.serve import run as running
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("onsketch"):
                raise
            raise ImportError(f"serve needs {error.name}: pip install 'onsketch[serve]'.") from None
        from onsketch.jobs.serve.engine import Settings
        from onsketch.jobs.serve.limits import Limits

        refuse((("tls_cert" in wish) != ("tls_key" in wish), "a certificate and its key go together", "--tls-cert"))
        asked = running.Wish(
            model=model,
            options=learner_options(learning),
            reading=reading,
            settings=Settings(**settings),
            limits=Limits(**limits),
            **wish,
        )
        code = running.run(asked, click.echo)
    if code:
        raise SystemExit(code)
