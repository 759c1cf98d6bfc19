"""Recommendations between ledger and operations: load, command, refresh, show."""
