"""The one store: engine, migrations, typed loads, snapshots, freshness and the ledger."""
