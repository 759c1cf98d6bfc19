"""Fleet: which backend serves a request, at what joules, and how sure we are."""
