"""``onsketch serve``: a model that learns while it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onsketch.cli.console import told_plainly
from onsketch.cli.options import gathering, known_method, learner_options, refuse

_WITHOUT = (
    "format", "label", "weight", "tag", "ignore", "categorical", "delimiter", "header", "names", "zero_based",
    "missing", "on_error", "block_rows", "keep", "describe", "cubic", "decimal",
    "max_line_bytes", "max_unpack_bytes", "max_products",
)  # fmt: skip
"""Options of reading that concern files."""

_DOORS, _SAFETY, _LIMITS = "Doors", "Durability", "Limits"


@gathering("learning", "reading", without=_WITHOUT)
def serve(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="A file that 'onsketch train --save' wrote; none: empty.")
    ] = None,
    learner: Annotated[
        str, typer.Option("--learner", "-l", metavar="NAME", help="The method of an empty model.")
    ] = "auto",
    task: Annotated[str | None, typer.Option(help="binary, classes or regression.", show_default="binary")] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep what is learned here; a restart goes on from it.")
    ] = None,
    shadow: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A second model that learns the same rows without answering.")
    ] = None,
    shadow_learner: Annotated[
        str | None, typer.Option(metavar="NAME", help="The same, empty, with this method.")
    ] = None,
    consume: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Learn a live stream, too: redis://… or kafka://….")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.", rich_help_panel=_DOORS)] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.", rich_help_panel=_DOORS)] = 8000,
    vw_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Vowpal Wabbit's daemon protocol.", rich_help_panel=_DOORS)
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="Lines 'read TOKEN' and 'learn TOKEN'.", rich_help_panel=_DOORS)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen for other machines without tokens.", rich_help_panel=_DOORS)
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM).", rich_help_panel=_DOORS)] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).", rich_help_panel=_DOORS)] = None,
    durability: Annotated[
        str, typer.Option(help="none, batch (one fsync for all that wait) or row.", rich_help_panel=_SAFETY)
    ] = "batch",
    commit_delay: Annotated[
        float, typer.Option(min=0.0, help="Milliseconds to gather rows before an fsync.", rich_help_panel=_SAFETY)
    ] = 0.0,
    snapshot_every: Annotated[
        int, typer.Option(min=1, metavar="ROWS", help="Write a snapshot and cut the log.", rich_help_panel=_SAFETY)
    ] = 100_000,
    keep_log: Annotated[
        bool,
        typer.Option("--keep-log", help="Keep the log behind snapshots in FOLDER/archive.", rich_help_panel=_SAFETY),
    ] = False,
    cut_damaged: Annotated[
        bool,
        typer.Option(
            "--cut-damaged", help="Go on from a damaged log, without what follows the damage.", rich_help_panel=_SAFETY
        ),
    ] = False,
    queue: Annotated[
        int, typer.Option(min=1, metavar="ROWS", help="Rows that may wait; more get 503.", rich_help_panel=_LIMITS)
    ] = 100_000,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request.", rich_help_panel=_LIMITS)] = 16 << 20,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of a request.", rich_help_panel=_LIMITS)] = 10_000,
    max_features: Annotated[int, typer.Option(min=1, help="Features of a row.", rich_help_panel=_LIMITS)] = 10_000,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="Rows that may wait for labels.", rich_help_panel=_LIMITS)
    ] = 100_000,
    label_timeout: Annotated[
        float, typer.Option(min=0.0, help="Seconds that a row waits for its label.", rich_help_panel=_LIMITS)
    ] = 3600.0,
    header_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for the head of a request.", rich_help_panel=_LIMITS)
    ] = 10.0,
    learning: dict[str, Any] = {},  # noqa: B006
    reading: dict[str, Any] = {},  # noqa: B006
) -> None:
    """Serve a model that learns while it answers, over HTTP.

    Predict now, learn when the label comes. With --log every row that was acknowledged survives a crash.

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
        from onsketch.jobs.serve.service import Limits

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
        code = running.run(wish, typer.echo)
    if code:
        raise typer.Exit(code)
