"""The SQL lab: one read-only statement, answered by a short-lived process on a copy of the warehouse.

A plain SELECT can bring down the process that parses or runs it: a thousand characters of nested
CASE take gigabytes to *parse*, and `length(range(1000000000))` ignores every memory setting. So
neither happens in the console's process:

    client.run_sql ── text ──> worker.py   limits set, then parses: returns the syntax tree
                   <── tree ──
    tree.check_tree            allow-list over the tree, here in the parent: SqlRefused
                   ── go ────> worker.py   opens names, second check, runs: returns Arrow
                   <── rows ──

* `client.py`    run_sql and export, what pages, CLI and API call
* `validate.py`  the rules for one statement, also usable alone
* `tree.py`      the walk over the syntax tree, with the scopes of CTE names
* `functions.py` which functions may be called
* `process.py`   starting, talking to and ending the worker
* `worker.py`    the process itself: standard library, duckdb and pyarrow only

The snapshot file is made by the engine; nothing here writes to it.
"""
