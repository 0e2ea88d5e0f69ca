"""The database: engine, tables, ledger, counts.

Contract of this floor: every function takes a connection that its caller
opened with `app.storage.engine.reading` or `writing`, and never commits.  So
one use case is one transaction, and what raises leaves nothing behind.
"""
