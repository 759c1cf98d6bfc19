"""Operations of the replay lab."""

from __future__ import annotations
