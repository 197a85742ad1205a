"""``onsketch serve``: a model that learns while it answers.

Rows pass through these stages: request → rows (``rows.py``) → queue and log (``engine.py``, ``log.py``, ``store.py``) →
model (``model.py``) → answer (``answers.py``). One thread learns, in order of arrival; predictions are made between its
short steps. ``http.py`` and ``vw_daemon.py`` are the two protocols; all other modules are independent of them.
"""
