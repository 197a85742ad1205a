"""``onsketch serve``: a model that learns while it answers.

Rows walk one way: request → rows (``rows.py``) → queue and log (``engine.py``, ``log.py``, ``store.py``) → model
(``model.py``) → answer (``answers.py``). One thread learns, in order of arrival; predictions are made
in between its short steps. ``http.py`` and ``vw_daemon.py`` are the doors; nothing behind them knows of either.
"""
