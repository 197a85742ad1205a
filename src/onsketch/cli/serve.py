"""``onsketch serve``: a model that learns while it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onsketch.cli.console import told_plainly
from onsketch.cli.declaring import option, refuse
from onsketch.cli.options import gathering, known_method, learner_options

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
    learner: Annotated[str, option("The method of an empty model.", "--learner", "-l", metavar="NAME")] = "auto",
    task: Annotated[str | None, option("binary, classes or regression.", shown="binary")] = None,
    log: Annotated[
        Path | None, option("Keep what is learned here; a restart goes on from it.", metavar="FOLDER")
    ] = None,
    shadow: Annotated[
        Path | None, option("A second model that learns the same rows without answering.", metavar="MODEL")
    ] = None,
    shadow_learner: Annotated[str | None, option("The same, empty, with this method.", metavar="NAME")] = None,
    consume: Annotated[
        str | None, option("Learn a live stream, too: redis://… or kafka://….", metavar="ADDRESS")
    ] = None,
    host: Annotated[str, option("The address to listen on.", panel=_DOORS)] = "127.0.0.1",
    port: Annotated[int, option("0 for any free one.", panel=_DOORS, min=0, max=65535)] = 8000,
    vw_port: Annotated[int | None, option("Vowpal Wabbit's daemon protocol.", panel=_DOORS, min=0, max=65535)] = None,
    tokens: Annotated[Path | None, option("Lines 'read TOKEN' and 'learn TOKEN'.", panel=_DOORS)] = None,
    insecure: Annotated[bool, option("Listen for other machines without tokens.", "--insecure", panel=_DOORS)] = False,
    tls_cert: Annotated[Path | None, option("Certificate (PEM).", panel=_DOORS)] = None,
    tls_key: Annotated[Path | None, option("Its key (PEM).", panel=_DOORS)] = None,
    durability: Annotated[str, option("none, batch (one fsync for all that wait) or row.", panel=_SAFETY)] = "batch",
    commit_delay: Annotated[
        float, option("Milliseconds to gather rows before an fsync.", panel=_SAFETY, min=0.0)
    ] = 0.0,
    snapshot_every: Annotated[
        int, option("Write a snapshot and cut the log.", panel=_SAFETY, min=1, metavar="ROWS")
    ] = 100_000,
    keep_log: Annotated[
        bool, option("Keep the log behind snapshots in FOLDER/archive.", "--keep-log", panel=_SAFETY)
    ] = False,
    cut_damaged: Annotated[
        bool, option("Go on from a damaged log, without what follows the damage.", "--cut-damaged", panel=_SAFETY)
    ] = False,
    queue: Annotated[int, option("Rows that may wait; more get 503.", panel=_LIMITS, min=1, metavar="ROWS")] = 100_000,
    max_body: Annotated[int, option("Bytes of a request.", panel=_LIMITS, min=1)] = 16 << 20,
    max_rows: Annotated[int, option("Rows of a request.", panel=_LIMITS, min=1)] = 10_000,
    max_features: Annotated[int, option("Features of a row.", panel=_LIMITS, min=1)] = 10_000,
    max_waiting: Annotated[int, option("Rows that may wait for labels.", panel=_LIMITS, min=1)] = 100_000,
    label_timeout: Annotated[float, option("Seconds that a row waits for its label.", panel=_LIMITS, min=0.0)] = 3600.0,
    header_timeout: Annotated[float, option("Seconds for the head of a request.", panel=_LIMITS, min=0.1)] = 10.0,
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
