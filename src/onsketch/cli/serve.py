"""``onsketch serve``: a model that learns while it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from onsketch.cli.console import told_plainly
from onsketch.cli.declaring import FOLDER, command, flag, option, refuse
from onsketch.cli.options import known_method, learner_options, learning, reading

_WITHOUT = (
    "format", "label", "weight", "tag", "ignore", "categorical", "delimiter", "header", "names", "zero_based",
    "missing", "on_error", "block_rows", "keep", "describe", "cubic", "decimal",
    "max_line_bytes", "max_unpack_bytes", "max_products",
)  # fmt: skip
"""Options of reading that concern files."""

_DOORS, _SAFETY, _LIMITS = "Doors", "Durability", "Limits"


@command(shared=(*learning(), *reading(_WITHOUT)))
@click.argument(
    "model",
    type=FOLDER,
    required=False,
    metavar="[MODEL]",
    help="A file that 'onsketch train --save' wrote; none: empty.",
)
@option("--learner", "-l", default="auto", metavar="NAME", help="The method of an empty model.")
@option("--task", show_default="binary", help="binary, classes or regression.")
@option("--log", type=FOLDER, metavar="FOLDER", help="Keep what is learned here; a restart goes on from it.")
@option("--shadow", type=FOLDER, metavar="MODEL", help="A second model that learns the same rows without answering.")
@option("--shadow-learner", metavar="NAME", help="The same, empty, with this method.")
@option("--consume", metavar="ADDRESS", help="Learn a live stream, too: redis://… or kafka://….")
@option("--host", default="127.0.0.1", panel=_DOORS, help="The address to listen on.")
@option("--port", type=click.IntRange(0, 65535), default=8000, panel=_DOORS, help="0 for any free one.")
@option("--vw-port", type=click.IntRange(0, 65535), panel=_DOORS, help="Vowpal Wabbit's daemon protocol.")
@option("--tokens", type=FOLDER, panel=_DOORS, help="Lines 'read TOKEN' and 'learn TOKEN'.")
@flag("--insecure", panel=_DOORS, help="Listen for other machines without tokens.")
@option("--tls-cert", type=FOLDER, panel=_DOORS, help="Certificate (PEM).")
@option("--tls-key", type=FOLDER, panel=_DOORS, help="Its key (PEM).")
@option("--durability", default="batch", panel=_SAFETY, help="none, batch (one fsync for all that wait) or row.")
@option(
    "--commit-delay",
    type=click.FloatRange(0.0),
    default=0.0,
    panel=_SAFETY,
    help="Milliseconds to gather rows before an fsync.",
)
@option(
    "--snapshot-every",
    type=click.IntRange(1),
    default=100_000,
    metavar="ROWS",
    panel=_SAFETY,
    help="Write a snapshot and cut the log.",
)
@flag("--keep-log", panel=_SAFETY, help="Keep the log behind snapshots in FOLDER/archive.")
@flag("--cut-damaged", panel=_SAFETY, help="Go on from a damaged log, without what follows the damage.")
@option(
    "--queue",
    type=click.IntRange(1),
    default=100_000,
    metavar="ROWS",
    panel=_LIMITS,
    help="Rows that may wait; more get 503.",
)
@option("--max-body", type=click.IntRange(1), default=16 << 20, panel=_LIMITS, help="Bytes of a request.")
@option("--max-rows", type=click.IntRange(1), default=10_000, panel=_LIMITS, help="Rows of a request.")
@option("--max-features", type=click.IntRange(1), default=10_000, panel=_LIMITS, help="Features of a row.")
@option("--max-waiting", type=click.IntRange(1), default=100_000, panel=_LIMITS, help="Rows that may wait for labels.")
@option(
    "--label-timeout",
    type=click.FloatRange(0.0),
    default=3600.0,
    panel=_LIMITS,
    help="Seconds that a row waits for its label.",
)
@option(
    "--header-timeout",
    type=click.FloatRange(0.1),
    default=10.0,
    panel=_LIMITS,
    help="Seconds for the head of a request.",
)
def serve(
    model: Path | None, learner: str, task: str | None, log: Path | None, shadow: Path | None,
    shadow_learner: str | None, consume: str | None, host: str, port: int, vw_port: int | None, tokens: Path | None,
    insecure: bool, tls_cert: Path | None, tls_key: Path | None, durability: str, commit_delay: float,
    snapshot_every: int, keep_log: bool, cut_damaged: bool, queue: int, max_body: int, max_rows: int,
    max_features: int, max_waiting: int, label_timeout: float, header_timeout: float, learning: dict[str, Any],
    reading: dict[str, Any],
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
    with told_plainly():
        try:
            from onsketch.jobs.serve import run as running
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("onsketch"):
                raise
            raise ImportError(f"serve needs {error.name}: pip install 'onsketch[serve]'.") from None
        from onsketch.jobs.serve.engine import Settings
        from onsketch.jobs.serve.limits import Limits

        refuse(((tls_cert is None) != (tls_key is None), "a certificate and its key go together", "--tls-cert"))
        wish = running.Wish(
            model=model,
            method=known_method(learner),
            task=task,
            options=learner_options(learning),
            reading=reading,
            log=log,
            host=host,
            port=port,
            vw_port=vw_port,
            shadow=shadow,
            shadow_method=None if shadow_learner is None else known_method(shadow_learner),
            consume=consume,
            tokens=tokens,
            insecure=insecure,
            tls=None if tls_cert is None else (str(tls_cert), str(tls_key)),
            cut_damaged=cut_damaged,
            keep_log=keep_log,
            settings=Settings(durability, commit_delay / 1000.0, queue, snapshot_rows=snapshot_every),
            limits=Limits(max_body, max_rows, max_features, max_waiting, label_timeout, header_timeout),
        )
        code = running.run(wish, click.echo)
    if code:
        raise SystemExit(code)
