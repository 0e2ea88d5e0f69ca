"""Storage: SQL, and nothing but SQL.

Contract of this floor: every function takes a connection that its caller
opened with `app.storage.database.engine.reading` or, if anything is changed, with
`writing`, and never commits.  So one use case is one transaction, and one that raises
leaves nothing behind.
"""
