"""Recorded workloads: traces of requests and distributions of their lengths."""
