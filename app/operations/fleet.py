"""Operations of the fleet lab."""

from __future__ import annotations
