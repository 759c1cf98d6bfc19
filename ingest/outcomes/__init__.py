"""Recorded outcomes of the replay lab: queries x arms -> core.query, core.arm, core.outcome."""
