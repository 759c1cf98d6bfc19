"""Replay lab: what another routing policy would have cost, and how well it would have answered."""
