"""Sample data: a reference sweep with published properties, some organic traffic, and published points.

Everything invented here has a source id that starts with `sample:` and takes the same parsers as real
payloads. Only timestamps depend on the clock.
"""

from __future__ import annotations

from ingest.sample.generate import sample_payloads

__all__ = ["sample_payloads"]
